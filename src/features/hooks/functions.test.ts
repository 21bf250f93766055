import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import * as jose from 'jose'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { startReceiver } from '../../../test/fakes/receiver.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

/** A provider to sign in with, and an issuer of tokens that are callers. */
const pair = await jose.generateKeyPair('ES256', { extractable: true })
const jwk = { ...(await jose.exportJWK(pair.publicKey)), kid: 'one', alg: 'ES256' }
let person = {}
const elsewhere = await startReceiver(({ path }, response) => {
  const answers = new Map<string, object>([
    ['/token', { access_token: 'good', token_type: 'bearer' }],
    ['/person', person],
    ['/keys', { keys: [jwk] }],
  ])
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answers.get(path)))
})
after(() => elsewhere.close())

const api = await startServer({
  config: {
    'auth.issuers': [{ issuer: elsewhere.url, audience: ['app'], jwks_url: `${elsewhere.url}/keys` }],
    'auth.oauth.hub.enabled': true,
    'auth.oauth.hub.client_id': 'id',
    'auth.oauth.hub.client_secret': 'secret',
    'auth.oauth.hub.authorize_url': `${elsewhere.url}/authorize`,
    'auth.oauth.hub.token_url': `${elsewhere.url}/token`,
    'auth.oauth.hub.userinfo_url': `${elsewhere.url}/person`,
    'auth.anonymous_auth_enabled': true,
    'auth.magic_link_enabled': true,
    'auth.sms_enabled': true,
    'auth.sms_test_phone_numbers': { '+15005550006': '123456', '+15005550009': '123456' },
    'auth.hooks.before_sign_up': 'hooks.sign_up',
    'auth.hooks.before_sign_in': 'hooks.sign_in',
    'auth.hooks.token_claims': 'hooks.claims',
  },
})
const mail = mailbox(api)
const password = 'long enough password'

/** Behaves as the rows of `hooks.rules` say; a role that may read them is all that the functions need. */
before(async () => {
  await api.sql(`create schema hooks;
    create table hooks.heard (event jsonb, role text);
    create table hooks.extra (claims jsonb);
    grant insert on hooks.heard to svc_hooks; grant select on hooks.extra to svc_hooks;
    create function hooks.sign_up(event jsonb) returns jsonb language plpgsql as $$ begin
      insert into hooks.heard values (event, current_user);
      if event #>> '{user,email}' like '%@evil.test' or event #>> '{user,phone}' like '%9' then
        raise exception 'no accounts for %', split_part(event #>> '{user,email}', '@', 2) using errcode = '42501';
      end if;
      return jsonb_build_object('metadata', jsonb_build_object('how', event ->> 'method'), 'app_metadata', '{"plan": "free"}'::jsonb);
    end $$;
    create function hooks.sign_in(event jsonb) returns jsonb language plpgsql as $$ begin
      insert into hooks.heard values (event, current_user);
      if event #>> '{user,app_metadata,plan}' = 'banned' then raise exception 'banned'; end if;
      return null;
    end $$;
    create function hooks.claims(event jsonb) returns jsonb language sql as $$
      select coalesce((select claims from hooks.extra), '{}') $$;
    create function public.seen() returns jsonb language sql stable as $$ select svc.claims() $$`)
  await eventually(async () => assert.equal((await api.call('POST /api/rpc/seen')).status, 200))
})

const partsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
const setClaims = (claims: unknown) =>
  api
    .sql('delete from hooks.extra')
    .then(() => api.sql('insert into hooks.extra values ($1)', [JSON.stringify(claims)]))
const count = async (text: string) => Number((await api.sql(`select count(*) as n from ${text}`))[0].n)
const login = (email: string) => api.call('POST /api/auth/login', { json: { email, password } })

test('before_sign_up refuses with its message, and sets metadata', async () => {
  const refused = await api.call('POST /api/auth/register', { json: { email: 'a@evil.test', password } })
  assert.deepEqual(
    [refused.status, refused.body],
    [403, { code: 403, error: 'hook_refused', message: 'no accounts for evil.test' }],
  )
  assert.equal(await count(`svc.users where email = 'a@evil.test'`), 0)
  const { user, token } = await api.signUp('ada@x.test')
  const me = await api.call('GET /api/auth/me', { as: token })
  assert.deepEqual([me.body.metadata, me.body.app_metadata], [{ how: 'password' }, { plan: 'free' }])
  const [{ event: text }] = await api.sql(
    `select event from hooks.heard where event #>> '{user,email}' = 'ada@x.test' and event ->> 'hook' = 'before_sign_up'`,
  )
  const event = JSON.parse(text)
  assert.deepEqual(
    [event.method, event.user, event.ip],
    ['password', { email: 'ada@x.test', is_anonymous: false }, '127.0.0.1'],
  )
  assert.match(event.id, /^[0-9a-f-]{36}$/)
  assert.notEqual(event.id, user.id)
})

test('every way to a new account passes it, and no way to one that exists', async () => {
  const heard = (method: string) => count(`hooks.heard where event ->> 'method' = '${method}'`)
  const magic = async (email: string, as?: string) => {
    await api.call('POST /api/auth/magic-link', { json: { email } })
    const token = await mail.token(email, mail.mails(email).length || 1, 'magic')
    return {
      token,
      confirmed: await api.call('POST /api/auth/magic-link/confirm', { json: { token }, ...(as && { as }) }),
    }
  }
  const first = await magic('link@x.test')
  assert.deepEqual([first.confirmed.status, first.confirmed.body.user.metadata], [200, { how: 'magic_link' }])
  assert.equal(await heard('magic_link'), 1)
  const evil = await magic('link@evil.test')
  assert.deepEqual([evil.confirmed.status, evil.confirmed.body.error], [403, 'hook_refused'])
  assert.equal(await count(`svc.users where email = 'link@evil.test'`), 0)

  const anonymous = (await api.call('POST /api/auth/anonymous')).body
  assert.deepEqual(anonymous.user.metadata, { how: 'anonymous' })
  const linked = (email: string) =>
    api.call('POST /api/auth/link/email', { as: anonymous.token, json: { email, password } })
  assert.equal((await linked('anon@evil.test')).body.message, 'no accounts for evil.test')
  const upgraded = await linked('anon@x.test')
  assert.deepEqual([upgraded.status, upgraded.body.user.metadata], [200, { how: 'password' }])

  const sms = async (phone: string) => {
    await api.call('POST /api/auth/sms', { json: { phone } })
    return api.call('POST /api/auth/sms/confirm', { json: { phone, code: '123456' } })
  }
  const calls = await sms('+15005550006')
  assert.deepEqual([calls.status, calls.body.user.metadata], [200, { how: 'sms' }])
  assert.equal((await sms('+15005550006')).status, 200)
  assert.equal(await heard('sms'), 1)
  assert.equal((await sms('+15005550009')).status, 403)
  assert.equal(await count(`svc.users where phone = '+15005550009'`), 0)
})

test('a sign-up at a provider and with the token of another issuer passes it too', async () => {
  const enter = async (subject: string, email: string) => {
    person = { sub: subject, email, email_verified: true }
    const begun = await api.call('GET /api/auth/oauth/hub')
    const state = new URL(begun.headers.get('location') ?? '').searchParams.get('state') ?? ''
    const cookie = begun.headers.get('set-cookie')?.split(';')[0] ?? ''
    return api.call(`GET /api/auth/oauth/hub/callback?code=right&state=${state}`, { headers: { cookie } })
  }
  const refused = await enter('p1', 'p1@evil.test')
  assert.deepEqual([refused.status, refused.body.error], [403, 'hook_refused'])
  const entered = await enter('p2', 'p2@x.test')
  assert.deepEqual([entered.status, entered.body.user.metadata], [200, { how: 'oauth' }])
  assert.equal((await enter('p2', 'p2@x.test')).status, 200)
  assert.equal(await count(`hooks.heard where event ->> 'subject' = 'p2'`), 1)

  const tokenOf = (sub: string, email: string) =>
    new jose.SignJWT({ email, email_verified: true })
      .setProtectedHeader({ alg: 'ES256', kid: 'one' })
      .setIssuer(elsewhere.url)
      .setAudience('app')
      .setSubject(sub)
      .setIssuedAt()
      .setExpirationTime('1h')
      .sign(pair.privateKey)
  const me = async (sub: string, email: string) => api.call('GET /api/auth/me', { as: await tokenOf(sub, email) })
  const stranger = await me('t1', 't1@evil.test')
  assert.deepEqual([stranger.status, stranger.body.message], [403, 'no accounts for evil.test'])
  assert.deepEqual((await me('t2', 't2@x.test')).body.metadata, { how: 'issuer' })
  assert.equal(await count(`svc.identities where subject in ('p1', 't1')`), 0)

  const { token } = (await api.call('POST /api/auth/anonymous')).body
  const link = async (sub: string, email: string) =>
    api.call('POST /api/auth/identities', { as: token, json: { token: await tokenOf(sub, email) } })
  assert.equal((await link('t3', 't3@evil.test')).body.error, 'hook_refused')
  assert.equal((await api.call('GET /api/auth/me', { as: token })).body.is_anonymous, true)
  assert.equal((await link('t4', 't4@x.test')).status, 204)
  assert.deepEqual((await api.call('GET /api/auth/me', { as: token })).body.metadata, { how: 'issuer' })
})

test('what an operator makes, and administrators themselves, pass no hook', async () => {
  const made = await api.call('POST /api/admin/users', { as: 'admin', json: { email: 'made@evil.test', password } })
  assert.equal(made.status, 201)
  assert.equal((await api.call('POST /api/admin/auth', { json: { password: 'wrong' } })).status, 401)
  assert.ok(await api.adminToken())
  assert.equal(await count(`hooks.heard where event::text like '%made@evil.test%'`), 0)
})

test('before_sign_in refuses a session, which leaves nothing behind', async () => {
  const { user } = await api.signUp('ban@x.test')
  await api.call(`PATCH /api/admin/users/${user.id}`, { as: 'admin', json: { app_metadata: { plan: 'banned' } } })
  const sessions = await count(`svc.sessions where user_id = '${user.id}'`)
  const refused = await login('ban@x.test')
  assert.deepEqual([refused.status, refused.body.error, refused.body.message], [403, 'hook_refused', 'banned'])
  assert.equal(await count(`svc.sessions where user_id = '${user.id}'`), sessions)
  assert.equal(
    (await api.call('POST /api/auth/login', { json: { email: 'ban@x.test', password: 'other' } })).status,
    401,
  )
})

test('token_claims are in tokens and in svc.claims(), and new ones with the next token', async () => {
  await setClaims({ plan: 'pro', teams: ['a', 'b'] })
  await api.signUp('cy@x.test')
  const { token, refreshToken } = (await login('cy@x.test')).body
  assert.deepEqual([partsOf(token).plan, partsOf(token).teams], ['pro', ['a', 'b']])
  const { body: seen } = await api.call('POST /api/rpc/seen', { as: token })
  assert.deepEqual([seen.plan, seen.teams, seen.email], ['pro', ['a', 'b'], 'cy@x.test'])
  await setClaims({ claims: { plan: 'team' } })
  const next = await api.call('POST /api/auth/refresh', { json: { refreshToken } })
  assert.equal(partsOf(next.body.token).plan, 'team')
  const org = await api.call('POST /api/orgs', { as: next.body.token, json: { name: 'Acme' } })
  const switched = await api.call('POST /api/auth/org', { as: next.body.token, json: { org: org.body.id } })
  const { body: both } = await api.call('POST /api/rpc/seen', { as: switched.body.token })
  assert.deepEqual([both.plan, both.org], ['team', org.body.id])
})

test('a failing token_claims refuses, keeps the refresh token good, and leaves no session', async () => {
  await setClaims({})
  const { user } = await api.signUp('di@x.test')
  const { refreshToken } = (await login('di@x.test')).body
  const sessions = await count(`svc.sessions where user_id = '${user.id}'`)
  await setClaims({ sub: '00000000-0000-0000-0000-000000000000' })
  const failed = await login('di@x.test')
  assert.deepEqual([failed.status, failed.body.error], [503, 'hook_failed'])
  assert.equal(await count(`svc.sessions where user_id = '${user.id}'`), sessions)
  assert.equal((await api.call('POST /api/auth/refresh', { json: { refreshToken } })).status, 503)
  await setClaims({})
  assert.equal((await api.call('POST /api/auth/refresh', { json: { refreshToken } })).status, 200)
})

test('a slow, huge or missing function is a failure, and callers go on meanwhile', async () => {
  const { token } = await api.signUp('busy@x.test')
  const become = (body: string) =>
    api.sql(`create or replace function hooks.claims(event jsonb) returns jsonb language sql as $f$ ${body} $f$`)
  await become(`select jsonb_build_object('slow', pg_sleep(60))`)
  const slow = Array.from({ length: 6 }, () => login('busy@x.test'))
  for (let i = 0; i < 5; i++) assert.equal((await api.call('POST /api/rpc/seen', { as: token })).status, 200)
  for (const { status, body } of await Promise.all(slow)) assert.deepEqual([status, body.error], [503, 'hook_failed'])
  await become(`select jsonb_build_object('huge', repeat('x', 1000000))`)
  assert.equal((await login('busy@x.test')).body.error, 'hook_failed')
  await become(`select '[]'::jsonb`)
  assert.equal((await login('busy@x.test')).body.error, 'hook_failed')
  await api.sql('alter function hooks.claims(jsonb) rename to gone')
  assert.equal((await login('busy@x.test')).body.error, 'hook_failed')
  await api.sql('alter function hooks.gone(jsonb) rename to claims')
  await become(`select '{}'::jsonb`)
  assert.equal((await login('busy@x.test')).status, 200)
})

test('a hook function runs as svc_hooks, which has nothing of the schema svc and is no other role', async () => {
  assert.deepEqual(await api.sql('select distinct role from hooks.heard'), [{ role: 'svc_hooks' }])
  const attempts = ['select count(*) from svc.users', 'select key from svc.log_key', 'create role mine']
  for (const text of attempts) {
    await api.sql(`create or replace function hooks.claims(event jsonb) returns jsonb language plpgsql as $f$ begin
      execute '${text}'; return '{}'; end $f$`)
    assert.equal((await login('ada@x.test')).status, 503, text)
  }
  await api.sql(`create or replace function hooks.claims(event jsonb) returns jsonb language plpgsql as $f$ begin
    perform set_config('role', 'none', false); return jsonb_build_object('who', current_user, 'super',
      (select rolsuper from pg_roles where rolname = current_user)); end $f$`)
  const { body } = await login('ada@x.test')
  assert.equal(partsOf(body.token).super, false)
  assert.match(partsOf(body.token).who, /^svc_authenticator/)
})
