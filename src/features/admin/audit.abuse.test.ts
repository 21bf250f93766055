import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authenticator } from '../../../test/fakes/authenticator.ts'
import { Passkey } from '../../../test/fakes/passkey.ts'
import { plantBackup, testFolder } from '../../../test/kit/backups.ts'
import { withoutExtensions } from '../../../test/kit/cluster.ts'
import { startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'
import { post } from '../../http/out/post.ts'

/** These change nothing, so that nothing can happen without its entry; they are noted when the answer is known. */
const NOTED_AFTERWARDS = [
  'POST /api/admin/rls/explain',
  'POST /api/admin/rls/snapshot',
  'POST /api/admin/rls/compare',
  'POST /api/admin/mcp',
  'POST /api/admin/email/templates/{key}/preview',
]

const backupTo = testFolder()
const passphrase = 'only for tests'

const api = await startServer({
  postgres: withoutExtensions ? 'embedded' : 'extensions',
  config: {
    'push.enabled': true,
    'auth.oauth_provider.enabled': true,
    'ai.embedding_provider': 'hash',
    'agents.admin': true,
    'backup.to': backupTo,
    'backup.passphrase': passphrase,
  },
})
const admin = async (line: string, json?: unknown) =>
  api.call(line as 'GET /', { as: 'admin', ...(json !== undefined && { json }) })
const made = async (line: string, json?: unknown) => {
  const { status, body } = await admin(line, json)
  assert.ok(status < 300, `${line}: ${status} ${JSON.stringify(body)}`)
  return body
}

type Request = [route: string, line: string, json?: unknown]

/** One of everything an administrator can write to, and for each audited route a request that would succeed. */
async function everyWrite(): Promise<Record<string, () => Promise<{ status: number }>>> {
  await api.sql(`
    create table notes (id int primary key);
    create materialized view totals as select count(*) from notes;
    create materialized view others as select count(*) from notes;
    insert into notes values (1)`)
  const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
  const userId = ana.user.id
  const hook = await made('POST /api/webhooks', { url: `${api.url}/health` })
  const pastDelivery = crypto.randomUUID()
  await api.sql(`insert into svc.webhook_deliveries (id, webhook_id, event_id, event_action, event_table, success, attempt, duration_ms,
    request_body, response_body) values ('${pastDelivery}', '${hook.id}', '${pastDelivery}', 'create', 'notes', false, 1, 1, '{}', '')`)
  const app = await made('POST /api/admin/apps', { name: 'a', ownerUserId: userId })
  const lost = await made('POST /api/admin/apps', { name: 'b', ownerUserId: userId })
  const { apiKey } = await made('POST /api/admin/api-keys', { userId, name: 'k' })
  const later = { type: 'http', payload: {}, runAt: '2999-01-01T00:00:00Z' }
  const [failed, queued] = [await made('POST /api/admin/jobs', later), await made('POST /api/admin/jobs', later)]
  await api.sql(`update svc.jobs set state = 'failed' where id = '${failed.id}'`)
  const schedule = { name: 's', jobType: 'http', cronExpr: '0 0 1 1 *' }
  const kept = await made('POST /api/admin/schedules', schedule)
  const view = await made('POST /api/admin/matviews', { viewName: 'totals' })
  const phone = { app_id: app.id, user_id: userId, provider: 'fcm', platform: 'android' }
  const device = await made('POST /api/admin/push/devices', { ...phone, token: 't' })
  const template = { subjectTemplate: 'x', htmlTemplate: 'x' }
  await made('PUT /api/admin/email/templates/app.hello', template)
  const clientWish = { name: 'c', redirectUris: ['https://app.test/cb'], scopes: ['readonly'] }
  const { client } = await made('POST /api/admin/oauth/clients', { ...clientWish, appId: app.id })
  await made('POST /api/admin/storage/buckets', { name: 'kept' })
  const site = await made('POST /api/admin/sites', { name: 'a', slug: 'a' })
  const deploys = `/api/admin/sites/${site.id}/deploys`
  const deploy = async (status?: 'promote') => {
    const { id } = await made(`POST ${deploys}`)
    if (status) await made(`POST ${deploys}/${id}/${status}`)
    return `${deploys}/${id}`
  }
  await deploy('promote')
  await deploy('promote')
  const [open, doomed, next] = [await deploy(), await deploy(), await deploy()]
  const message = { title: 't', body: 'b' }
  const policy = { table: 'notes', name: 'p', using: 'true' }
  await made('POST /api/admin/rls', { ...policy, name: 'old' })
  const settings = { totp_enabled: true }

  // Without pgvector both are refused before there is anything to write down.
  const hasVectors = !withoutExtensions
  if (hasVectors)
    await api.sql(
      'create extension vector; create table meanings (id int primary key, body text, v vector(3), w vector(3))',
    )
  const index = { table: 'meanings', column: 'v', method: 'hnsw', metric: 'l2' }
  if (hasVectors) await made('POST /api/admin/vector/indexes', { ...index, index_name: 'old' })
  const embed = { table: 'meanings', columns: ['body'], vector_column: 'v' }
  const embedding = hasVectors ? (await made('POST /api/admin/vector/embed', { ...embed, vector_column: 'w' })).id : ''

  await api.sql('create table pages (id int primary key, body text)')
  await made('POST /api/admin/search/indexes', { table: 'pages', method: 'fulltext', index_name: 'words' })

  const vectorRequests: Request[] = [
    ['POST /api/admin/vector/indexes', 'POST /api/admin/vector/indexes', index],
    ['DELETE /api/admin/vector/indexes/{name}', 'DELETE /api/admin/vector/indexes/old'],
    ['POST /api/admin/vector/embed', 'POST /api/admin/vector/embed', embed],
    ['DELETE /api/admin/vector/embed/{id}', `DELETE /api/admin/vector/embed/${embedding}`],
  ]
  const factor = crypto.randomUUID()
  await api.sql(`insert into svc.mfa_factors (id, user_id, method, phone, confirmed_at)
    values ('${factor}', '${bo.user.id}', 'sms', '+4915112345678', now())`)
  const identity = crypto.randomUUID()
  await api.sql(`insert into svc.identities (id, provider, subject, user_id)
    values ('${identity}', 'github', 'of-bo', '${bo.user.id}')`)
  const ofBo = `/api/admin/users/${bo.user.id}`

  await api.sql('create table undoable (id int primary key)')
  const undoable = { as: ana.token, json: { id: 1 }, headers: { 'x-request-id': 'to-be-undone' } }
  assert.equal((await api.call('POST /api/collections/undoable', undoable)).status, 201)

  const person = { email: 'ann@x.test', password: 'long enough password', role: 'viewer' }
  const ann = await made('POST /api/admin/admins', person)
  const gone = await made('POST /api/admin/admins', { ...person, email: 'gone@x.test' })
  /** Of administrators who enrol a second factor, which each does alone. */
  const named = async (email: string): Promise<string> => {
    await made('POST /api/admin/admins', { ...person, email })
    return (await made('POST /api/admin/auth', { email, password: person.password })).token
  }
  const [abe, eva, leaver] = [await named('abe@x.test'), await named('eva@x.test'), await named('lea@x.test')]
  const enroll = (as: string) => api.call('POST /api/admin/mfa/totp/enroll', { as })
  const phoneOfAbe = authenticator((await enroll(abe)).body.uri)
  const [pia, zoe] = [await named('pia@x.test'), await named('zoe@x.test')]
  const passkeyOf = async (as: string, passkey = new Passkey()) => {
    const { body: options } = await api.call('POST /api/admin/mfa/passkey/enroll', { as })
    const origin = `http://${options.rp.id}:${new URL(api.url).port}`
    return { id: passkey.id, json: { attestation_response: passkey.create(options, { origin }) } }
  }
  const confirmPasskey = (as: string, json: object) =>
    api.call('POST /api/admin/mfa/passkey/enroll/confirm', { as, json })
  const [ofPia, ofZoe] = [await passkeyOf(pia), await passkeyOf(zoe)]
  assert.equal((await confirmPasskey(zoe, ofZoe.json)).status, 200)

  const backup = await plantBackup(backupTo, passphrase)

  const items = '/api/admin/dashboard'
  const savedQuery = { name: 'q', query: 'select 1' }
  const savedView = { name: 'v', table: 'notes', state: {} }
  const ofQuery = `${items}/queries/${(await made(`POST ${items}/queries`, savedQuery)).id}`
  const ofView = `${items}/views/${(await made(`POST ${items}/views`, savedView)).id}`

  const requests: Request[] = [
    [`POST ${items}/queries`, `POST ${items}/queries`, savedQuery],
    [`PATCH ${items}/queries/{id}`, `PATCH ${ofQuery}`, { name: 'r' }],
    [`DELETE ${items}/queries/{id}`, `DELETE ${ofQuery}`],
    [`POST ${items}/views`, `POST ${items}/views`, savedView],
    [`PATCH ${items}/views/{id}`, `PATCH ${ofView}`, { name: 'w' }],
    [`DELETE ${items}/views/{id}`, `DELETE ${ofView}`],
    ['POST /api/admin/backups/{id}/verify', `POST /api/admin/backups/${backup}/verify`],
    ['DELETE /api/admin/backups/{id}', `DELETE /api/admin/backups/${backup}`],
    ['POST /api/admin/backups', 'POST /api/admin/backups', {}],
    ['POST /api/admin/admins', 'POST /api/admin/admins', { ...person, email: 'new@x.test' }],
    ['POST /api/admin/impersonate', 'POST /api/admin/impersonate', { anonymous: true }],
    ['POST /api/admin/auth/code', 'POST /api/admin/auth/code'],
    ['POST /api/admin/unlock', 'POST /api/admin/unlock', { password: 'correct horse battery staple' }],
    ['PATCH /api/admin/admins/{id}', `PATCH /api/admin/admins/${ann.id}`, { role: 'operator' }],
    ['DELETE /api/admin/admins/{id}', `DELETE /api/admin/admins/${gone.id}`],
    ...(hasVectors ? vectorRequests : []),
    ['POST /api/admin/search/indexes', 'POST /api/admin/search/indexes', { table: 'pages', method: 'fulltext' }],
    ['DELETE /api/admin/search/indexes/{name}', 'DELETE /api/admin/search/indexes/words'],
    ['POST /api/admin/sql', 'POST /api/admin/sql', { query: 'create table made ()' }],
    ['POST /api/webhooks', 'POST /api/webhooks', { url: 'https://y.test/' }],
    ['PATCH /api/webhooks/{id}', `PATCH /api/webhooks/${hook.id}`, { enabled: false }],
    [
      'POST /api/webhooks/{id}/deliveries/{deliveryId}/replay',
      `POST /api/webhooks/${hook.id}/deliveries/${pastDelivery}/replay`,
    ],
    ['POST /api/webhooks/{id}/test', `POST /api/webhooks/${hook.id}/test`],
    ['DELETE /api/webhooks/{id}', `DELETE /api/webhooks/${hook.id}`],
    ['POST /api/admin/apps', 'POST /api/admin/apps', { name: 'c', ownerUserId: userId }],
    ['PUT /api/admin/apps/{id}', `PUT /api/admin/apps/${app.id}`, { name: 'd' }],
    ['DELETE /api/admin/apps/{id}', `DELETE /api/admin/apps/${lost.id}`],
    ['POST /api/admin/api-keys', 'POST /api/admin/api-keys', { userId, name: 'new' }],
    ['DELETE /api/admin/api-keys/{id}', `DELETE /api/admin/api-keys/${apiKey.id}`],
    ['POST /api/admin/jobs', 'POST /api/admin/jobs', later],
    ['POST /api/admin/jobs/{id}/retry', `POST /api/admin/jobs/${failed.id}/retry`],
    ['POST /api/admin/jobs/{id}/cancel', `POST /api/admin/jobs/${queued.id}/cancel`],
    ['POST /api/admin/schedules', 'POST /api/admin/schedules', { ...schedule, name: 'new' }],
    ['PUT /api/admin/schedules/{id}', `PUT /api/admin/schedules/${kept.id}`, { maxAttempts: 1 }],
    ['POST /api/admin/schedules/{id}/disable', `POST /api/admin/schedules/${kept.id}/disable`],
    ['POST /api/admin/schedules/{id}/enable', `POST /api/admin/schedules/${kept.id}/enable`],
    ['POST /api/admin/schedules/{id}/run', `POST /api/admin/schedules/${kept.id}/run`],
    ['DELETE /api/admin/schedules/{id}', `DELETE /api/admin/schedules/${kept.id}`],
    ['POST /api/admin/matviews', 'POST /api/admin/matviews', { viewName: 'others' }],
    ['PUT /api/admin/matviews/{id}', `PUT /api/admin/matviews/${view.id}`, { refreshMode: 'standard' }],
    ['POST /api/admin/matviews/{id}/refresh', `POST /api/admin/matviews/${view.id}/refresh`],
    ['DELETE /api/admin/matviews/{id}', `DELETE /api/admin/matviews/${view.id}`],
    ['POST /api/admin/push/devices', 'POST /api/admin/push/devices', { ...phone, token: 'new' }],
    ['POST /api/admin/push/send', 'POST /api/admin/push/send', { app_id: app.id, user_id: userId, ...message }],
    ['POST /api/admin/push/send-to-token', 'POST /api/admin/push/send-to-token', { token_id: device.id, ...message }],
    ['DELETE /api/admin/push/devices/{id}', `DELETE /api/admin/push/devices/${device.id}`],
    ['PUT /api/admin/email/templates/{key}', 'PUT /api/admin/email/templates/app.hello', template],
    ['PATCH /api/admin/email/templates/{key}', 'PATCH /api/admin/email/templates/app.hello', { enabled: true }],
    ['POST /api/admin/email/send', 'POST /api/admin/email/send', { templateKey: 'app.hello', to: 'x@x.test' }],
    ['DELETE /api/admin/email/templates/{key}', 'DELETE /api/admin/email/templates/app.hello'],
    [
      'POST /api/admin/email/templates/{key}/preview',
      'POST /api/admin/email/templates/app.x/preview',
      { ...template, variables: {} },
    ],
    ['POST /api/admin/oauth/clients', 'POST /api/admin/oauth/clients', { ...clientWish, appId: app.id }],
    ['PUT /api/admin/oauth/clients/{clientId}', `PUT /api/admin/oauth/clients/${client.clientId}`, clientWish],
    [
      'POST /api/admin/oauth/clients/{clientId}/rotate-secret',
      `POST /api/admin/oauth/clients/${client.clientId}/rotate-secret`,
    ],
    ['DELETE /api/admin/oauth/clients/{clientId}', `DELETE /api/admin/oauth/clients/${client.clientId}`],
    ['POST /api/admin/storage/buckets', 'POST /api/admin/storage/buckets', { name: 'new' }],
    ['PUT /api/admin/storage/buckets/{name}', 'PUT /api/admin/storage/buckets/kept', { public: false }],
    ['DELETE /api/admin/storage/buckets/{name}', 'DELETE /api/admin/storage/buckets/kept'],
    ['POST /api/admin/storage/cdn/purge', 'POST /api/admin/storage/cdn/purge', { urls: ['https://x.test/a'] }],
    ['POST /api/admin/sites', 'POST /api/admin/sites', { name: 'b', slug: 'b' }],
    ['PUT /api/admin/sites/{siteId}', `PUT /api/admin/sites/${site.id}`, { name: 'c' }],
    ['POST /api/admin/sites/{siteId}/deploys', `POST ${deploys}`],
    ['POST /api/admin/sites/{siteId}/deploys/rollback', `POST ${deploys}/rollback`],
    ['POST /api/admin/sites/{siteId}/deploys/{deployId}/manifest', `POST ${open}/manifest`, { files: [] }],
    ['POST /api/admin/sites/{siteId}/deploys/{deployId}/promote', `POST ${next}/promote`],
    ['POST /api/admin/sites/{siteId}/deploys/{deployId}/fail', `POST ${doomed}/fail`, {}],
    ['POST /api/admin/rls', 'POST /api/admin/rls', policy],
    ['POST /api/admin/rls/{table}/enable', 'POST /api/admin/rls/notes/enable'],
    ['POST /api/admin/rls/{table}/disable', 'POST /api/admin/rls/notes/disable'],
    ['POST /api/admin/rls/snapshot', 'POST /api/admin/rls/snapshot', {}],
    [
      'POST /api/admin/rls/compare',
      'POST /api/admin/rls/compare',
      { table: 'notes', policy: { name: 'p', using: 'true' } },
    ],
    [
      'POST /api/admin/rls/explain',
      'POST /api/admin/rls/explain',
      { table: 'notes', operation: 'insert', row: { id: 1 } },
    ],
    ['DELETE /api/admin/rls/{table}/{policy}', 'DELETE /api/admin/rls/notes/old'],
    ['PATCH /api/admin/auth-settings', 'PATCH /api/admin/auth-settings', settings],
    ['PUT /api/admin/auth-settings', 'PUT /api/admin/auth-settings', settings],
    ['POST /api/admin/undo', 'POST /api/admin/undo', { request_id: 'to-be-undone' }],
    [
      'DELETE /api/realtime/channels/{channel}/members/{user}',
      `DELETE /api/realtime/channels/room/members/${ana.user.id}`,
    ],
    ['POST /api/admin/users', 'POST /api/admin/users', { email: 'made@x.test' }],
    ['POST /api/admin/users/invite', 'POST /api/admin/users/invite', { email: 'invited@x.test' }],
    ['PATCH /api/admin/users/{id}', `PATCH ${ofBo}`, { app_metadata: { n: 1 } }],
    ['POST /api/admin/users/{id}/disable', `POST ${ofBo}/disable`],
    ['POST /api/admin/users/{id}/enable', `POST ${ofBo}/enable`],
    ['POST /api/admin/users/{id}/password', `POST ${ofBo}/password`, { password: 'another long password' }],
    ['DELETE /api/admin/users/{id}/sessions', `DELETE ${ofBo}/sessions`],
    ['DELETE /api/admin/users/{id}/factors/{factor}', `DELETE ${ofBo}/factors/${factor}`],
    ['DELETE /api/admin/users/{id}/providers/{identity}', `DELETE ${ofBo}/providers/${identity}`],
    ['GET /api/admin/users/{id}/export', `GET ${ofBo}/export`],
    ['DELETE /api/admin/users/{id}', `DELETE ${ofBo}`],
    ['POST /api/admin/secrets/rotate', 'POST /api/admin/secrets/rotate'],
    ['POST /api/admin/secrets/signing-key', 'POST /api/admin/secrets/signing-key', {}],
  ]
  const writes = requests.map(([route, line, json]) => [route, () => admin(line, json)] as const)
  const machine = (await api.app.issueAdminToken()) ?? ''
  const host = `localhost:${new URL(api.url).port}`
  const ping = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })
  const operator = () => post(`${api.url}/api/admin/mcp`, ping, { host, authorization: `Bearer ${machine}` })
  const file = () => upload(api, `${open}/files`, { as: 'admin', name: 'a.txt', content: 'x' })
  return {
    'POST /api/admin/sites/{siteId}/deploys/{deployId}/files': file,
    ...Object.fromEntries(writes),
    'POST /api/admin/mcp': operator,
    'POST /api/admin/auth/logout': () => api.call('POST /api/admin/auth/logout', { as: leaver }),
    'POST /api/admin/mfa/totp/enroll': () => enroll(eva),
    'POST /api/admin/mfa/passkey/enroll': () => api.call('POST /api/admin/mfa/passkey/enroll', { as: eva }),
    'POST /api/admin/mfa/passkey/enroll/confirm': () => confirmPasskey(pia, ofPia.json),
    'DELETE /api/admin/mfa/passkey/credentials/{credential_id}': () =>
      api.call(`DELETE /api/admin/mfa/passkey/credentials/${ofZoe.id}`, { as: zoe }),
    'POST /api/admin/mfa/totp/enroll/confirm': () =>
      api.call('POST /api/admin/mfa/totp/enroll/confirm', { as: abe, json: { code: phoneOfAbe.code() } }),
    'DELETE /api/admin/sites/{siteId}': () => admin(`DELETE /api/admin/sites/${site.id}`),
  }
}

/** What administrators write to, but for what moves by itself. */
async function state(): Promise<unknown> {
  const tables = `webhooks apps api_keys jobs schedules push_devices push_deliveries email_templates oauth_clients
    storage_buckets sites site_deploys site_files settings users sessions admins admin_passkeys saved_items`
  const known = await api.sql(
    `select table_name as name from information_schema.tables where table_schema = 'svc' and table_name = any($1)`,
    [tables.split(/\s+/)],
  )
  const rows = known.map(
    ({ name }) => `select '${name}' as of, md5(string_agg(t::text, '|' order by t::text)) as is from svc.${name} t`,
  )
  return api.sql(`${rows.join(' union all ')}
    union all select 'registered views', string_agg(view_name || refresh_mode, ',' order by view_name) from svc.matviews
    union all select 'a view', count::text from totals
    union all select 'policies', string_agg(policyname, ',' order by policyname) from pg_policies
    union all select 'indexes', string_agg(indexname, ',' order by indexname) from pg_indexes where schemaname = 'public'
    union all select 'row security', string_agg(relname, ',' order by relname) from pg_class
      where relnamespace = 'public'::regnamespace and (relrowsecurity or relkind = 'r')`)
}

test('every admin write and its entry are one: without the entry nothing happens, with it exactly one is there', async () => {
  const writes = await everyWrite()
  const routes = api.app.routes.filter(({ audit }) => audit !== undefined)
  const names = routes
    .map(({ method, path }) => `${method} ${path}`)
    .filter((name) => !(withoutExtensions && name.includes('/vector/')))
  assert.deepEqual(Object.keys(writes).sort(), names.toSorted(), 'a new audited route has a request here')

  await api.sql(`
    create function svc.refuse() returns trigger language plpgsql as $$ begin raise exception 'disk full'; end $$;
    create trigger refuse before insert on svc.audit_log for each row execute function svc.refuse()`)
  const before = await state()
  const late: string[] = []
  for (const [name, write] of Object.entries(writes)) {
    if ((await write()).status < 400) late.push(name)
    assert.deepEqual(await state(), before, `${name} changed something without an entry`)
  }
  assert.deepEqual(late.sort(), NOTED_AFTERWARDS.toSorted())

  await api.sql('drop trigger refuse on svc.audit_log')
  for (const [name, write] of Object.entries(writes)) {
    await api.sql('delete from svc.audit_log')
    const { status } = await write()
    assert.ok(status < 300, `${name} answered ${status}`)
    const expected = routes.find(({ method, path }) => `${method} ${path}` === name)?.audit
    const entries = await api.sql('select action, target from svc.audit_log')
    assert.deepEqual(
      entries.map(({ action }) => action),
      [expected],
    )
    const hasTarget = entries[0].target !== '' || expected === 'sql.execute' || expected === 'secrets.rotate'
    assert.ok(hasTarget, `${name} does not say what it changed`)
  }
})

test('what changes nothing leaves no entry', async () => {
  await api.sql('delete from svc.audit_log')
  const nobody = '00000000-0000-4000-8000-000000000000'
  for (const line of [
    `DELETE /api/webhooks/${nobody}`,
    `DELETE /api/admin/users/${nobody}`,
    `DELETE /api/admin/api-keys/${nobody}`,
    `POST /api/admin/jobs/${nobody}/cancel`,
    `DELETE /api/admin/schedules/${nobody}`,
    `DELETE /api/admin/sites/${nobody}`,
    'DELETE /api/admin/oauth/clients/nobody',
    'DELETE /api/admin/storage/buckets/nobody',
    'DELETE /api/admin/email/templates/no.body',
    'DELETE /api/admin/backups/nobody',
  ]) {
    assert.equal((await admin(line)).status, 404, line)
  }
  assert.deepEqual(await api.sql('select action from svc.audit_log'), [])
})
