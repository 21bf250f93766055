import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import * as jose from 'jose'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { idOfForeigner } from './issuers.ts'

/** Another issuer: its keys, where they are, and how often they were asked for. */
type Pair = Awaited<ReturnType<typeof newPair>>
const newPair = async (kid: string, alg = 'ES256') => {
  const { publicKey, privateKey } = await jose.generateKeyPair(alg, { extractable: true })
  return { kid, alg, privateKey, jwk: { ...(await jose.exportJWK(publicKey)), kid, alg, use: 'sig' } }
}
const published: Pair[] = []
let asked = 0
let issuer = ''
const service = createServer((request, response) => {
  if (request.url === '/.well-known/openid-configuration')
    return void response.end(JSON.stringify({ issuer, jwks_uri: `${issuer}/keys` }))
  asked++
  response.end(JSON.stringify({ keys: published.map(({ jwk }) => jwk) }))
})
after(() => service.close())

let api: InProcessServer
let first: Pair
before(async () => {
  await new Promise<void>((done) => service.listen(0, '127.0.0.1', done))
  issuer = `http://127.0.0.1:${(service.address() as { port: number }).port}`
  first = await newPair('one')
  published.push(first)
  api = await startServer({
    config: {
      'auth.anonymous_auth_enabled': true,
      'auth.issuers': [
        { issuer, audience: ['app'], claims: { role: 'https://x.test/role' }, acr_aal2: ['mfa'], max_token_age: '1h' },
      ],
    },
  })
  await api.sql(`create table notes (id int primary key, owner uuid default svc.uid(), body text);
    alter table notes enable row level security; grant all on notes to svc_authenticated;
    create policy own on notes using (owner = svc.uid()) with check (owner = svc.uid());
    create function whoami() returns jsonb language sql stable as $$
      select jsonb_build_object('uid', svc.uid(), 'claims', svc.claims(), 'role', current_user) $$`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/notes', { as: 'admin' })).status, 200),
  )
})

const tokenOf = (claims: Record<string, unknown> = {}, { pair = first, age = 0 } = {}) => {
  const now = Math.floor(Date.now() / 1000) - age
  return new jose.SignJWT({ sub: 'ada', iss: issuer, aud: 'app', iat: now, exp: now + 7200, ...claims })
    .setProtectedHeader({ alg: pair.alg, kid: pair.kid })
    .sign(pair.privateKey)
}
const whoami = (as: string, on = api) => on.call('POST /api/rpc/whoami', { as })

test('a token of another issuer is a caller: its rows, its claims, an account of its own', async () => {
  const as = await tokenOf({ email: 'Ada@x.test', email_verified: true, 'https://x.test/role': 'svc_admin', team: 7 })
  const { status, body } = await whoami(as)
  assert.equal(status, 200)
  const { uid, claims, role } = body
  assert.equal(role, 'svc_authenticated')
  assert.deepEqual(
    [claims.sub, claims.email, claims.aal, claims.role, claims.team],
    [uid, 'ada@x.test', 'aal1', 'svc_admin', 7],
  )
  assert.equal((await api.call('POST /api/collections/notes', { as, json: { id: 1, body: 'hers' } })).status, 201)
  const other = await tokenOf({ sub: 'bob' })
  assert.deepEqual((await api.call('GET /api/collections/notes', { as: other })).body.items, [])
  assert.equal((await api.call('GET /api/collections/notes', { as })).body.items.length, 1)
  assert.equal((await api.call('GET /api/auth/me', { as })).body.id, uid)
  assert.equal((await whoami(await tokenOf({ acr: 'mfa' }))).body.claims.aal, 'aal2')
})

test('it is no session: what outlives it is refused', async () => {
  const as = await tokenOf()
  for (const line of ['DELETE /api/auth/me', 'GET /api/auth/sessions', 'POST /api/auth/verify/resend'] as const)
    assert.ok([401, 403].includes((await api.call(line, { as })).status), line)
  const key = await api.call('POST /api/auth/api-keys', { as, json: { name: 'x' } })
  assert.ok([401, 403, 404].includes(key.status), key.text)
  assert.equal((await api.call('GET /api/admin/stats', { as })).status, 401)
})

test('an address joins no local account, verified or not', async () => {
  const local = await api.signUp('cy@x.test')
  const { body } = await whoami(await tokenOf({ sub: 'cy', email: 'cy@x.test', email_verified: true }))
  assert.notEqual(body.uid, local.user.id)
  assert.equal(body.claims.email, undefined)
  const unverified = await whoami(await tokenOf({ sub: 'di', email: 'di@x.test' }))
  assert.equal(unverified.body.claims.email, undefined)
})

test('an own session links it, once', async () => {
  const [eve, fay] = [await api.signUp('eve@x.test'), await api.signUp('fay@x.test')]
  const token = await tokenOf({ sub: 'eve' })
  const link = (as: string, json: object) => api.call('POST /api/auth/identities', { as, json })
  assert.equal((await link(eve.token, { token: 'x' })).status, 401)
  assert.equal((await link(eve.token, { token })).status, 204)
  assert.equal((await link(eve.token, { token })).status, 204)
  assert.equal((await link(fay.token, { token })).status, 409)
  assert.equal((await whoami(token)).body.uid, eve.user.id)
  assert.ok([401, 403].includes((await link(token, { token: await tokenOf({ sub: 'other' }) })).status))
})

test('an address is read as everywhere: a look-alike letter makes another one', async () => {
  const email = '\u212Aim@x.test'
  const { body } = await whoami(await tokenOf({ sub: 'kelvin', email, email_verified: true }))
  assert.equal(body.claims.email, email)
  assert.equal(
    (await whoami(await tokenOf({ sub: 'kim', email: ' KIM@x.test', email_verified: true }))).body.claims.email,
    'kim@x.test',
  )
})

test('claims that cannot be stored are left out, and numbers keep their digits', async () => {
  for (const x of ['\ud800', 'a\0b']) {
    const { status, body } = await whoami(await tokenOf({ sub: 'odd', x }))
    assert.deepEqual([status, body.claims.x, body.claims.iss], [200, undefined, issuer])
  }
  const claims = { sub: 'odd', x: '\\u0000 \\ud800', tenant: 'digits' }
  const raw = JSON.stringify({ iss: issuer, aud: 'app', iat: 0, exp: 9_999_999_999, ...claims })
    .replace('"iat":0', `"iat":${Math.floor(Date.now() / 1000)}`)
    .replace('"digits"', '1234567890199659641')
  const as = await new jose.CompactSign(Buffer.from(raw))
    .setProtectedHeader({ alg: first.alg, kid: first.kid })
    .sign(first.privateKey)
  const { body } = await whoami(as)
  assert.deepEqual([body.claims.x, body.claims.tenant], [claims.x, '1234567890199659641'])
})

const link = (as: string, token: string) => api.call('POST /api/auth/identities', { as, json: { token } })
const listed = async (as: string) => (await api.call('GET /api/auth/identities', { as })).body
const resetOf = async (email: string, count = 1) => {
  await api.call('POST /api/auth/password-reset', { json: { email } })
  const token = await mailbox(api).token(email, count, '/auth/reset')
  const json = { token, password: 'the next long password' }
  assert.equal((await api.call('POST /api/auth/password-reset/confirm', { json })).status, 204)
  return (await api.call('POST /api/auth/login', { json: { email, password: json.password } })).body.token as string
}

test('the owner hears of a link, sees it and removes it, which holds at once', async () => {
  const [ida, jan] = [await api.signUp('ida@x.test'), await api.signUp('jan@x.test')]
  const token = await tokenOf({ sub: 'ida' })
  for (const _ of [1, 2]) assert.equal((await link(ida.token, token)).status, 204)
  const notices = () =>
    mailbox(api)
      .mails('ida@x.test')
      .filter(({ subject }) => subject === 'Security notice')
  await eventually(() => assert.ok(notices()[0]?.text.includes(issuer)))
  assert.equal(notices().length, 1, 'the second time nothing changed')
  const [one, ...others] = await listed(ida.token)
  assert.deepEqual([one.provider, one.subject, one.ended_at, others], [issuer, 'ida', undefined, []])
  assert.equal((await whoami(token)).body.uid, ida.user.id)
  const remove = (as: string, id: string) => api.call(`DELETE /api/auth/identities/${id}`, { as })
  assert.equal((await remove(jan.token, one.id)).status, 404)
  assert.equal((await remove(token, one.id)).status, 403)
  assert.equal((await remove(ida.token, 'x')).status, 404)
  assert.equal((await remove(ida.token, one.id)).status, 204)
  assert.notEqual((await whoami(token)).body.uid, ida.user.id)
  assert.deepEqual(await listed(ida.token), [])
  await eventually(() => assert.equal(notices().length, 2))
})

test('who has a second factor links and removes with it, and the last way to sign in stays', async () => {
  const { user, token } = await api.signUp('kay@x.test')
  assert.equal((await link(token, await tokenOf({ sub: 'kay' }))).status, 204)
  const [{ id }] = await listed(token)
  const remove = () => api.call(`DELETE /api/auth/identities/${id}`, { as: token })
  await api.sql(
    `insert into svc.mfa_factors (id, user_id, method, confirmed_at) values (gen_random_uuid(), $1, 'email', now())`,
    [user.id],
  )
  assert.equal((await remove()).body.error, 'insufficient_aal')
  await api.sql(`delete from svc.mfa_factors where user_id = $1`, [user.id])
  await api.sql(`update svc.users set email = null where id = $1`, [user.id])
  const last = await remove()
  assert.deepEqual([last.status, last.body.error], [403, 'last_credential'])
})

test('a reset, and a password of the operator’s, end what sessions linked, until one links it again', async () => {
  const { user, token } = await api.signUp('lea@x.test')
  // The first proof of an address leaves nothing of what was there before.
  await api.sql('update svc.users set email_verified_at = now() where id = $1', [user.id])
  const thiefs = await tokenOf({ sub: 'thief of lea' })
  assert.equal((await link(token, thiefs)).status, 204)
  assert.equal((await whoami(thiefs)).body.uid, user.id)
  const own = await resetOf('lea@x.test')
  assert.equal((await whoami(thiefs)).status, 401)
  assert.equal((await whoami(await tokenOf({ sub: 'thief of lea', jti: 'fresh' }))).status, 401)
  assert.match((await listed(own))[0].ended_at, /Z$/)
  const ofOwner = await tokenOf({ sub: 'lea' })
  assert.equal((await link(own, ofOwner)).status, 204)
  assert.equal((await whoami(ofOwner)).body.uid, user.id)
  const json = { password: 'of the operator' }
  assert.equal((await api.call(`POST /api/admin/users/${user.id}/password`, { as: 'admin', json })).status, 204)
  assert.equal((await whoami(ofOwner)).status, 401)
  const again = (await api.call('POST /api/auth/login', { json: { email: 'lea@x.test', ...json } })).body.token
  assert.equal((await link(again, ofOwner)).status, 204)
  assert.equal((await whoami(ofOwner)).body.uid, user.id)
  const mia = await api.signUp('mia@x.test')
  assert.equal((await link(mia.token, thiefs)).status, 204, 'an ended one is free for others')
  assert.equal((await link(mia.token, ofOwner)).status, 409)
})

test('the first proof of an address ends what sessions linked before, until one links it again', async () => {
  const { user, token } = await api.signUp('quim@x.test')
  const as = await tokenOf({ sub: 'quim' })
  assert.equal((await link(token, as)).status, 204)
  const own = await resetOf('quim@x.test')
  assert.equal((await whoami(as)).status, 401)
  assert.equal((await link(own, as)).status, 204)
  assert.equal((await whoami(as)).body.uid, user.id)
})

test('an account made at first sight keeps its identity through a reset', async () => {
  const as = await tokenOf({ sub: 'nia', email: 'nia@x.test', email_verified: true })
  const { uid } = (await whoami(as)).body
  const token = await resetOf('nia@x.test')
  assert.equal((await api.call('GET /api/auth/me', { as: token })).body.id, uid)
  assert.equal((await whoami(as)).body.uid, uid)
})

test('an anonymous account that links an identity is one no longer, and is kept', async () => {
  const before = (await api.call('POST /api/auth/anonymous')).body
  const as = await tokenOf({ sub: 'oda', email: 'Oda@x.test', email_verified: true })
  assert.equal((await link(before.token, as)).status, 204)
  const { id, email, emailVerified, is_anonymous } = (await api.call('GET /api/auth/me', { as: before.token })).body
  assert.deepEqual([id, email, emailVerified, is_anonymous], [before.user.id, 'oda@x.test', true, false])
  assert.equal((await whoami(as)).body.uid, before.user.id)
  const taken = (await api.call('POST /api/auth/anonymous')).body
  assert.equal((await link(taken.token, await tokenOf({ sub: 'pia', email, email_verified: true }))).status, 204)
  const { user } = (await api.call('POST /api/auth/refresh', { json: { refreshToken: taken.refreshToken } })).body
  assert.deepEqual([user.id, user.email, user.is_anonymous], [taken.user.id, '', false])
})

test('two first requests at once make one account', async () => {
  const tokens = await Promise.all(Array.from({ length: 8 }, (_, i) => tokenOf({ sub: 'gus', jti: `${i}` })))
  const ids = await Promise.all(tokens.map(async (as) => (await whoami(as)).body.uid))
  assert.equal(new Set(ids).size, 1)
  const [{ n }] = await api.sql(
    `select count(*) as n from svc.users where id in (select user_id from svc.identities where subject = 'gus')`,
  )
  assert.equal(Number(n), 1)
})

test('what is not exactly good is refused', async () => {
  const stranger = await newPair('one')
  const [header = '', payload = ''] = (await tokenOf()).split('.')
  const secret = createPublicKey({ key: first.jwk, format: 'jwk' }).export({ format: 'der', type: 'spki' })
  const hs256 = await new jose.SignJWT({ sub: 'ada', iss: issuer, aud: 'app', exp: 9_999_999_999 })
    .setProtectedHeader({ alg: 'HS256', kid: 'one' })
    .sign(secret)
  const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${payload}.`
  const bad = {
    hs256,
    none,
    'no signature': `${header}.${payload}.`,
    'another key of the same name': await tokenOf({}, { pair: stranger }),
    'another audience': await tokenOf({ aud: 'other' }),
    'no audience': await tokenOf({ aud: undefined }),
    'another issuer': await tokenOf({ iss: `${issuer}/` }),
    'no end': await tokenOf({ exp: undefined }),
    'no beginning': await tokenOf({ iat: undefined }),
    'made in a minute': await tokenOf({}, { age: -60 }),
    'a beginning that is no number': await tokenOf({ iat: '0' }),
    expired: await tokenOf({ exp: 1 }),
    'too old': await tokenOf({}, { age: 3700 }),
    'no subject': await tokenOf({ sub: undefined }),
    'a subject that is no text': await tokenOf({ sub: 7 }),
    'a subject that cannot be stored': await tokenOf({ sub: '\ud800' }),
  }
  for (const [what, as] of Object.entries(bad)) assert.equal((await whoami(as)).status, 401, what)
})

test('a new key is found when it is named, unknown ones are looked for once a minute', async () => {
  const fresh = await startServer({ on: api, config: { 'auth.issuers': [{ issuer, audience: ['app'] }] } })
  assert.equal((await whoami(await tokenOf(), fresh)).status, 200)
  const before = asked
  const unknown = await newPair('unknown')
  const flood = await Promise.all(Array.from({ length: 50 }, (_, i) => tokenOf({ jti: `${i}` }, { pair: unknown })))
  for (const { status } of await Promise.all(flood.map((as) => whoami(as, fresh)))) assert.equal(status, 401)
  assert.ok(asked <= before + 1, `${asked - before} times`)
  assert.equal((await whoami(await tokenOf({ jti: 'known' }), fresh)).status, 200)
  const next = await newPair('two', 'RS256')
  published.push(next)
  const rotated = await startServer({
    on: api,
    config: { 'auth.issuers': [{ issuer, audience: ['app'], jwks_url: `${issuer}/keys` }] },
  })
  assert.equal((await whoami(await tokenOf({}, { pair: next }), rotated)).status, 200)
})

test('without an account of its own the caller is a UUID of issuer and subject', async () => {
  const config = { 'auth.issuers': JSON.stringify([{ issuer, audience: ['app'], provision: false }]) }
  const plain = await startServer({ on: api, config })
  const { body } = await whoami(await tokenOf({ sub: 'zoe', email: 'zoe@x.test', email_verified: true }), plain)
  assert.equal(body.uid, idOfForeigner({ issuer, subject: 'zoe' }))
  assert.match(body.uid, /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab]/)
  assert.equal(body.claims.email, 'zoe@x.test')
  assert.deepEqual(await api.sql(`select 1 as one from svc.identities where subject = 'zoe'`), [])
})

test('tokens of a disabled account are refused within a second', async () => {
  const as = await tokenOf({ sub: 'hal' })
  const { uid } = (await whoami(as)).body
  assert.equal((await api.call(`POST /api/admin/users/${uid}/disable`, { as: 'admin' })).status, 204)
  await eventually(async () => assert.equal((await whoami(as)).status, 401), { seconds: 5 })
})
