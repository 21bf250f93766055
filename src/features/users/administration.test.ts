import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { exportOf } from './export-sql.ts'

const config = { 'server.public_base_url': 'https://api.x.test' }
const api = await startServer({ config })
const other = await startServer({ config, on: api })
const mail = mailbox(api)
const password = 'long enough password'

type Request = Parameters<typeof api.call>[0]
const admin = (call: Request, json?: object) => api.call(call, { as: 'admin', ...(json && { json }) })
const login = (email: string, secret = password) =>
  api.call('POST /api/auth/login', { json: { email, password: secret } })

test('an administrator makes an account, with or without a password', async () => {
  const given = { email: ' Made@x.test', password, email_verified: true, app_metadata: { plan: 'pro' } }
  const made = await admin('POST /api/admin/users', given)
  assert.deepEqual(
    [made.status, made.body.email, made.body.emailVerified, made.body.app_metadata],
    [201, 'made@x.test', true, { plan: 'pro' }],
  )
  assert.equal((await login('made@x.test')).body.user.id, made.body.id)
  const bare = await admin('POST /api/admin/users', { email: 'bare@x.test' })
  assert.deepEqual([bare.status, (await login('bare@x.test')).status], [201, 401])
  assert.equal((await admin('POST /api/admin/users', given)).status, 409)
  assert.equal((await admin('POST /api/admin/users', { email: 'short@x.test', password: 'short' })).status, 400)
  const entry = (await admin('GET /api/admin/audit?action=user.create')).body.items[0]
  assert.doesNotMatch(JSON.stringify(entry), /long enough/)
})

test('an invited person chooses a password by the link in the mail', async () => {
  const { status, body } = await admin('POST /api/admin/users/invite', { email: 'guest@x.test' })
  assert.deepEqual([status, body.emailVerified], [201, false])
  const token = await mail.token('guest@x.test', 1, '/auth/reset')
  const choose = () => api.call('POST /api/auth/password-reset/confirm', { json: { token, password } })
  assert.deepEqual([(await choose()).status, (await choose()).status], [204, 400])
  assert.equal((await login('guest@x.test')).body.user.emailVerified, true)
})

test('a disabled account has no way in, on any process, until it is enabled', async () => {
  const { token, refreshToken, user } = await api.signUp('off@x.test')
  const key = (await api.call('POST /api/auth/api-keys', { as: token, json: { name: 'k' } })).body.key
  assert.equal((await other.call('GET /api/auth/me', { as: key })).status, 200)
  assert.equal((await admin(`POST /api/admin/users/${user.id}/disable`)).status, 204)
  for (const as of [token, key]) {
    assert.equal((await api.call('GET /api/auth/me', { as })).status, 401)
    await eventually(async () => assert.equal((await other.call('GET /api/auth/me', { as })).status, 401))
  }
  assert.equal((await api.call('POST /api/auth/refresh', { json: { refreshToken } })).status, 401)
  assert.equal((await login('off@x.test')).status, 401)
  assert.match((await admin(`GET /api/admin/users/${user.id}`)).body.disabled_at, /^\d{4}-/)
  assert.equal((await admin(`POST /api/admin/users/${user.id}/enable`)).status, 204)
  assert.equal((await login('off@x.test')).status, 200)
  assert.equal((await api.call('GET /api/auth/me', { as: key })).status, 200)
})

test('an administrator sets password, address and metadata, and ends sessions', async () => {
  const { token, user } = await api.signUp('changed@x.test')
  const at = `/api/admin/users/${user.id}` as const
  const sessions = await admin(`GET ${at}/sessions`)
  assert.deepEqual([sessions.status, sessions.body.length, sessions.body[0].aal], [200, 1, 'aal1'])
  await api.call('POST /api/auth/password-reset', { json: { email: 'changed@x.test' } })
  const old = await mail.token('changed@x.test', 1, '/auth/reset')
  const changed = await admin(`PATCH ${at}`, { email: 'Other@x.test', email_verified: true, app_metadata: { n: 1 } })
  assert.deepEqual(
    [changed.status, changed.body.email, changed.body.emailVerified, changed.body.app_metadata],
    [200, 'other@x.test', true, { n: 1 }],
  )
  const reset = await api.call('POST /api/auth/password-reset/confirm', { json: { token: old, password } })
  assert.equal(reset.status, 400)
  assert.equal((await admin(`DELETE ${at}/sessions`)).status, 204)
  assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 401)
  assert.equal((await admin(`POST ${at}/password`, { password: 'another long password' })).status, 204)
  assert.equal((await login('other@x.test', 'another long password')).status, 200)
  assert.equal((await admin(`GET /api/admin/users/${crypto.randomUUID()}`)).status, 404)
})

test('the audit of a change has the old and new values of what was given, and no secret in metadata', async () => {
  const { user } = await api.signUp('noted@x.test')
  const at = `/api/admin/users/${user.id}` as const
  const entry = async () => {
    const { items } = (await admin('GET /api/admin/audit?action=user.update&limit=1')).body
    return [items[0].target, items[0].old_values, items[0].new_values]
  }
  const first = { a: 1, password: 'hunter2secret', deep: [{ api_token: 'hunter2token' }] }
  const masked = { a: 1, password: '***', deep: [{ api_token: '***' }] }
  assert.equal((await admin(`PATCH ${at}`, { metadata: first, email: 'New@x.test' })).status, 200)
  assert.deepEqual(await entry(), [
    user.id,
    { email: 'noted@x.test', metadata: {} },
    { email: 'new@x.test', metadata: masked },
  ])
  const change = { metadata: { a: 2 }, app_metadata: { plan: 'pro', secret: 'x' }, email_verified: true }
  assert.equal((await admin(`PATCH ${at}`, change)).status, 200)
  assert.deepEqual(await entry(), [
    user.id,
    { metadata: masked, app_metadata: {}, email_verified: false },
    { metadata: { a: 2 }, app_metadata: { plan: 'pro', secret: '***' }, email_verified: true },
  ])
})

test('a lost factor is removed, with the sessions it opened', async () => {
  const { user } = await api.signUp('lost@x.test')
  await api.sql(`insert into svc.mfa_factors (id, user_id, method, phone, confirmed_at)
    values (gen_random_uuid(), '${user.id}', 'sms', '+4915112345678', now())`)
  assert.equal((await login('lost@x.test')).body.mfa_pending, true)
  const at = `/api/admin/users/${user.id}/factors` as const
  const [factor] = (await admin(`GET ${at}`)).body
  assert.deepEqual([factor.method, factor.name], ['sms', '+4915112345678'])
  assert.equal((await admin(`DELETE ${at}/${factor.id}`)).status, 204)
  assert.equal((await admin(`DELETE ${at}/${factor.id}`)).status, 404)
  assert.equal((await login('lost@x.test')).body.user.id, user.id)
})

test('the export of a person has what is kept, and no secret', async () => {
  const { token, user } = await api.signUp('export@x.test')
  const { key } = (await api.call('POST /api/auth/api-keys', { as: token, json: { name: 'mine' } })).body
  await api.sql(`create table orders (id int primary key, buyer uuid references svc.users, note text);
    insert into orders values (1, '${user.id}', 'own'), (2, null, 'other')`)
  const { status, body, headers, text } = await admin(`GET /api/admin/users/${user.id}/export`)
  assert.equal(status, 200)
  assert.match(headers.get('content-disposition') ?? '', /^attachment/)
  assert.deepEqual([body.account.email, body.sessions.length, body.api_keys[0].name], ['export@x.test', 1, 'mine'])
  assert.deepEqual(body.tables['public.orders'], [{ id: 1, buyer: user.id, note: 'own' }])
  assert.ok(!text.includes(key) && !/hash|secret/.test(text))
})

test('the export of a person has everything that hangs on the account, and nothing of others', async () => {
  const { token, user } = await api.signUp('whole@x.test')
  const [{ id: app }] = await api.sql(
    `insert into svc.apps (name, owner_user_id) values ('Own app', $1) returning id`,
    [user.id],
  )
  const [{ id: client }] =
    await api.sql(`insert into svc.oauth_clients (client_id, name, client_type, redirect_uris, scopes)
    values ('c1', 'A client', 'public', '{}', '{readonly}') returning id`)
  const org = (await api.call('POST /api/orgs', { as: token, json: { name: 'Herd' } })).body.id
  const host = await api.signUp('host@x.test')
  const theirs = (await api.call('POST /api/orgs', { as: host.token, json: { name: 'Pride' } })).body.id
  await api.sql(`update svc.users set email_verified_at = now() where id = '${user.id}'`)
  await api.sql(`
    insert into svc.identities (provider, subject, user_id) values ('https://issuer.test', 'foreign|1', '${user.id}');
    insert into svc.mail_tokens (hash, purpose, email, user_id, expires_at)
      values ('h1', 'email_change', 'next@x.test', '${user.id}', now() + interval '1 hour');
    insert into svc.push_devices (id, app_id, user_id, provider, platform, token, device_name)
      values ('00000000-0000-4000-8000-000000000001', '${app}', '${user.id}', 'fcm', 'android', 'push-token-1', 'Pixel');
    insert into svc.push_deliveries (device_token_id, app_id, user_id, provider, title, body)
      values ('00000000-0000-4000-8000-000000000001', '${app}', '${user.id}', 'fcm', 'Hello', 'there');
    insert into svc.known_devices (user_id, device) values ('${user.id}', 'device-digest');
    insert into svc.oauth_consents (user_id, client, redirect_uri, scope, tables)
      values ('${user.id}', '${client}', 'https://client.test/cb', 'readonly', '{notes}');
    insert into svc.oauth_grants (id, client, user_id, scope, tables)
      values (gen_random_uuid(), '${client}', '${user.id}', 'readonly', '{notes}');
    insert into svc.oauth_logins (session_id, client, user_id) values (gen_random_uuid(), '${client}', '${user.id}');
    insert into svc.agents (id, user_id, client, client_id)
      values ('00000000-0000-4000-8000-000000000002', '${user.id}', '${client}', 'c1');
    insert into svc.agent_writes (request_id, agent, rows, by_hand, is_final)
      values ('request-1', '00000000-0000-4000-8000-000000000002', 3, false, false);
    insert into svc.org_invites (org_id, email, role, hash, invited_by, expires_at) values
      ('${org}', 'friend@x.test', 'member', 'h2', '${user.id}', now() + interval '1 day'),
      ('${theirs}', 'whole@x.test', 'member', 'h3', '${host.user.id}', now() + interval '1 day');
    insert into svc.audit_log (actor, action, user_id, ip_address) values ('user', 'record.create', '${user.id}', '192.0.2.1');
    insert into svc.audit_log (actor, action, target, admin, ip_address)
      values ('admin', 'user.disable', '${user.id}', 'operator@x.test', '192.0.2.2');
    insert into svc.audit_log (actor, action, target) values ('admin', 'user.disable', '${host.user.id}')`)
  const { body, text } = await admin(`GET /api/admin/users/${user.id}/export`)
  const sole = (part: string) => {
    assert.equal(body[part]?.length, 1, part)
    return body[part][0]
  }
  assert.deepEqual([sole('identities').provider, sole('identities').subject], ['https://issuer.test', 'foreign|1'])
  const links = body.mailed_links.map(({ purpose, email }: { purpose: string; email: string }) => [purpose, email])
  assert.deepEqual(links.sort(), [
    ['email_change', 'next@x.test'],
    ['verify', 'whole@x.test'],
  ])
  assert.deepEqual([sole('push_devices').device_name, sole('push_devices').app], ['Pixel', 'Own app'])
  assert.deepEqual([sole('push_deliveries').title, sole('push_deliveries').body], ['Hello', 'there'])
  assert.match(body.known_devices[0].seen_at, /^\d{4}-/)
  assert.deepEqual([sole('consents').client, sole('consents').tables], ['A client', ['notes']])
  assert.deepEqual([sole('grants').client, sole('logins_elsewhere').client], ['A client', 'A client'])
  assert.deepEqual([sole('agents').client_id, sole('agents').writes[0].rows], ['c1', 3])
  assert.deepEqual([sole('organizations').name, sole('apps').name], ['Herd', 'Own app'])
  assert.deepEqual(
    [sole('invitations_sent').email, sole('invitations_received').organization],
    ['friend@x.test', 'Pride'],
  )
  const audit = body.audit.map(({ action, ip_address: ip }: { action: string; ip_address: string }) => [action, ip])
  assert.deepEqual(audit, [
    ['user.disable', null],
    ['record.create', '192.0.2.1'],
  ])
  assert.doesNotMatch(text, /push-token-1|device-digest|"h[123]"|operator@x\.test|192\.0\.2\.2|host@x\.test/)
})

test('the export of a person has every table of accounts, but for codes and what goes within minutes', async () => {
  const { text } = exportOf(crypto.randomUUID())
  const tables = await api.sql(`select distinct conrelid::regclass::text as name from pg_constraint
    where contype = 'f' and confrelid = 'svc.users'::regclass and conrelid::regclass::text like 'svc.%'`)
  const missing = tables.map(({ name }) => name).filter((name) => !new RegExp(`\\b${name}\\s`).test(text))
  assert.deepEqual(missing.sort(), [
    ...['svc.mfa_backup_codes', 'svc.mfa_limits', 'svc.oauth_codes', 'svc.oauth_device_codes', 'svc.oauth_prompts'],
    'svc.pending_logins',
  ])
})

test('the providers and organizations of a user are listed', async () => {
  const member = await api.signUp('member@x.test')
  await api.sql(`insert into svc.identities (provider, subject, user_id) values ('github', '42', $1)`, [member.user.id])
  const made = await api.call('POST /api/orgs', { as: member.token, json: { name: 'Herd' } })
  assert.equal(made.status, 201, made.text)
  const of = async (what: string, id = member.user.id) =>
    api.call(`GET /api/admin/users/${id}/${what}`, { as: 'admin' })
  const [identity] = (await of('providers')).body
  assert.deepEqual([identity.provider, identity.subject], ['github', '42'])
  const [organization] = (await of('organizations')).body
  assert.deepEqual([organization.name, organization.role], ['Herd', 'owner'])
  for (const what of ['providers', 'organizations']) {
    assert.equal((await of(what, crypto.randomUUID())).status, 404)
    assert.equal((await api.call(`GET /api/admin/users/${member.user.id}/${what}`, { as: member.token })).status, 401)
  }
})

test('an administrator removes a provider of a user, which ends every session', async () => {
  const user = await api.signUp('linked@x.test')
  await api.sql(`insert into svc.identities (provider, subject, user_id) values ('github', '43', $1)`, [user.user.id])
  const path = `/api/admin/users/${user.user.id}/providers` as const
  const [{ id }] = (await api.call(`GET ${path}`, { as: 'admin' })).body
  const missing = await api.call(`DELETE ${path}/${crypto.randomUUID()}`, { as: 'admin' })
  assert.deepEqual([missing.status, missing.body.error], [404, 'identity_not_found'])
  assert.equal((await api.call(`DELETE ${path}/x`, { as: 'admin' })).status, 404)
  assert.equal((await api.call(`DELETE ${path}/${id}`, { as: 'admin' })).status, 204)
  assert.deepEqual((await api.call(`GET ${path}`, { as: 'admin' })).body, [])
  assert.equal((await api.call('GET /api/auth/me', { as: user.token })).status, 401)
  const { items } = (await api.call('GET /api/admin/audit?action=user.remove_provider', { as: 'admin' })).body
  assert.deepEqual([items[0].target, items[0].new_values], [user.user.id, { provider: 'github', subject: '43' }])
})
