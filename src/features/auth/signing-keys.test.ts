import assert from 'node:assert/strict'
import { createHmac, createPublicKey } from 'node:crypto'
import { before, test } from 'node:test'
import * as jose from 'jose'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let [one, two] = [] as unknown as [InProcessServer, InProcessServer]
before(async () => {
  one = await startServer()
  two = await startServer({ on: one })
})

let people = 0
const signUp = (api: InProcessServer) => api.signUp(`person${++people}@x.test`)
const headerOf = (token: string) => jose.decodeProtectedHeader(token)
const me = (api: InProcessServer, token: string) => api.call('GET /api/auth/me', { as: token })
const rotate = (json = {}) => one.call('POST /api/admin/secrets/signing-key', { as: 'admin', json })

test('access tokens can be verified by others with the published keys', async () => {
  const { token, user } = await signUp(one)
  const { alg, typ, kid } = headerOf(token)
  assert.deepEqual([alg, typ], ['ES256', 'at+jwt'])
  const { status, body, headers } = await one.call('GET /.well-known/jwks.json')
  assert.deepEqual([status, body.keys.length, headers.get('cache-control')], [200, 1, 'public, max-age=60'])
  assert.deepEqual(Object.keys(body.keys[0]).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'])
  assert.equal(body.keys[0].kid, kid)
  const { payload } = await jose.jwtVerify(token, jose.createLocalJWKSet(body), {
    audience: `${jose.decodeJwt(token).iss}/api`,
    typ: 'at+jwt',
  })
  assert.deepEqual([payload.sub, new URL(payload.iss ?? '').port], [user.id, new URL(one.url).port])
})

test('forged tokens are refused: none, HS256 with the public key, another type, an unknown key, other bytes', async () => {
  const { token } = await signUp(one)
  const [header = '', payload = '', signature = ''] = token.split('.')
  const { kid } = headerOf(token)
  const { body } = await one.call('GET /.well-known/jwks.json')
  const pem = createPublicKey({ key: body.keys[0], format: 'jwk' }).export({ format: 'pem', type: 'spki' })
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const hmac = (head: object) => {
    const signed = `${encode(head)}.${payload}`
    return `${signed}.${createHmac('sha256', pem).update(signed).digest('base64url')}`
  }
  const forged = [
    `${encode({ alg: 'none', typ: 'at+jwt' })}.${payload}.`,
    hmac({ alg: 'HS256', typ: 'at+jwt', kid }),
    hmac({ alg: 'HS256', typ: 'JWT' }),
    `${encode({ alg: 'ES256', typ: 'JWT', kid })}.${payload}.${signature}`,
    `${encode({ alg: 'ES256', typ: 'at+jwt', kid: '0123456789abcdef' })}.${payload}.${signature}`,
    `${header}.${encode({ ...jose.decodeJwt(token), sub: 'x' })}.${signature}`,
    `${header}.${payload}.${signature}=`,
    `${header}.${payload}.${signature.slice(4)}`,
  ]
  for (const bearer of forged) assert.equal((await me(one, bearer)).status, 401, bearer)
  assert.equal((await me(one, token)).status, 200)
})

test('a key that a process signed with is known to the others at once', async () => {
  const { token: before } = await signUp(one)
  await one.sql(`update svc.signing_keys set retired_at = now() + interval '1 hour' where retired_at is null`)
  const { status, body } = await rotate()
  assert.deepEqual([status, body.message], [200, 'signing key rotated; tokens of the old key stay good until they end'])
  await one.sql('update svc.signing_keys set active_from = now() where retired_at is null')
  const { token } = await eventually(async () => {
    const session = await signUp(one)
    assert.notEqual(headerOf(session.token).kid, headerOf(before).kid)
    return session
  })
  assert.equal((await me(two, token)).status, 200)
  assert.equal((await me(two, before)).status, 200)
})

test('while keys are rotated no good token is refused, on any process', async () => {
  const used = new Set<string | undefined>()
  let isOver = false
  const work = Array.from({ length: 4 }, async (_, i) => {
    let { token, refreshToken } = await signUp(one)
    while (!isOver) {
      used.add(headerOf(token).kid)
      for (const api of [two, one]) assert.equal((await me(api, token)).status, 200)
      const { status, body } = await (i % 2 ? one : two).call('POST /api/auth/refresh', { json: { refreshToken } })
      assert.equal(status, 200)
      ;({ token, refreshToken } = body)
    }
  })
  await eventually(() => assert.ok(used.size > 0))
  const first = used.size
  await rotate()
  await Promise.race([eventually(() => assert.ok(used.size > first)), ...work])
  isOver = true
  await Promise.all(work)
  assert.equal((await one.call('GET /.well-known/jwks.json')).body.keys.length, 3)
})

test('a token that a retired key seems to have signed afterwards is refused', async () => {
  const { token } = await signUp(one)
  await one.sql(
    `update svc.signing_keys set retired_at = now() - interval '1 minute' where kid = '${headerOf(token).kid}'`,
  )
  await eventually(async () => assert.equal((await me(await startServer({ on: one }), token)).status, 401))
  await rotate()
})

test('a compromised key verifies nothing any more; sessions go on', async () => {
  const { token, refreshToken } = await signUp(one)
  const { body } = await rotate({ compromised: true })
  assert.equal(body.message, 'signing key rotated; tokens of the old key are invalid')
  await eventually(async () => assert.equal((await me(two, token)).status, 401))
  assert.equal((await me(one, token)).status, 401)
  const renewed = await two.call('POST /api/auth/refresh', { json: { refreshToken } })
  assert.equal((await me(one, renewed.body.token)).status, 200)
  assert.equal((await one.call('GET /.well-known/jwks.json')).body.keys.length, 1)
})

test('what was signed before the algorithm changed stays good', async () => {
  const old = await startServer({ config: { 'auth.signing_algorithm': 'HS256' } })
  const { token } = await signUp(old)
  assert.deepEqual(headerOf(token), { alg: 'HS256', typ: 'JWT' })
  assert.deepEqual((await old.call('GET /.well-known/jwks.json')).body, { keys: [] })
  const next = await startServer({ on: old, config: { 'auth.signing_algorithm': 'EdDSA' } })
  assert.equal((await me(next, token)).status, 200)
  const session = await eventually(async () => {
    const made = await signUp(next)
    assert.equal(headerOf(made.token).alg, 'EdDSA')
    return made
  })
  assert.equal((await me(old, session.token)).status, 200)
  const auto = await startServer({ on: old })
  assert.equal(headerOf((await signUp(auto)).token).alg, 'EdDSA')
  await old.sql(`update svc.signing_keys set retired_at = now() - interval '1 day' where algorithm = 'HS256'`)
  await eventually(async () => assert.equal((await me(await startServer({ on: old }), token)).status, 401))
})

test('the private key is encrypted; without its key another one is made', async () => {
  const api = await startServer()
  const { token } = await signUp(api)
  const [{ private_key: sealed }] = await api.sql('select private_key from svc.signing_keys')
  assert.match(sealed, /^v1\./)
  await api.sql(`update svc.signing_keys set private_key = 'v1.00000000.AAAA'`)
  const again = await startServer({ on: api })
  assert.equal((await me(again, token)).status, 401)
  const made = await eventually(async () => {
    const session = await signUp(again)
    assert.notEqual(headerOf(session.token).kid, headerOf(token).kid)
    return session
  })
  assert.equal((await me(again, made.token)).status, 200)
})

test('processes with different secrets on one database leave the keys of each other alone', async () => {
  const start = (letter: string, on?: InProcessServer) =>
    startServer({ config: { 'auth.jwt_secret': letter.repeat(32) }, ...(on && { on }) })
  const first = await start('a')
  const second = await start('b', first)
  await (await start('a', first)).stop()
  const rows = await first.sql('select retired_at from svc.signing_keys')
  assert.deepEqual(rows, [{ retired_at: null }, { retired_at: null }])
  for (const api of [first, second]) assert.equal((await me(api, (await signUp(api)).token)).status, 200)

  const compromised = { as: 'admin', json: { compromised: true } }
  assert.equal((await first.call('POST /api/admin/secrets/signing-key', compromised)).status, 200)
  for (const api of [first, second]) {
    await eventually(async () => assert.equal((await me(api, (await signUp(api)).token)).status, 200))
  }
})
