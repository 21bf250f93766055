import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import * as jose from 'jose'
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
