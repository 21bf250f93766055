import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import * as jose from 'jose'
import { AppError } from '../../../core/errors.ts'
import { createOutgoing } from '../../../http/out/outgoing.ts'
import { createProviders } from './registry.ts'

const { privateKey, publicKey } = await jose.generateKeyPair('RS256', { extractable: true })
const stranger = await jose.generateKeyPair('RS256')
const outgoing = createOutgoing({ allowPrivateNetworks: true })
const ask = { state: 'st', nonce: 'no', codeVerifier: 'v'.repeat(43), callbackUrl: 'http://localhost:1/cb' }
const state = { idToken: '', userinfo: {} as unknown, tokenStatus: 200 }

/** An issuer that says whatever the test wants it to say. */
const server = createServer((request, response) => {
  const send = (status: number, body: unknown) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  const path = request.url?.split('?')[0]
  if (path === '/.well-known/openid-configuration') {
    return send(200, {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      userinfo_endpoint: `${issuer}/userinfo`,
      jwks_uri: `${issuer}/jwks`,
      id_token_signing_alg_values_supported: ['RS256'],
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
    })
  }
  if (path === '/jwks')
    return jose.exportJWK(publicKey).then((jwk) => send(200, { keys: [{ ...jwk, alg: 'RS256', use: 'sig' }] }))
  if (path === '/token')
    return send(state.tokenStatus, { access_token: 'at', token_type: 'Bearer', id_token: state.idToken })
  if (path === '/userinfo') return send(200, state.userinfo)
  return send(404, {})
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
after(async () => {
  server.close()
  server.closeAllConnections()
  await outgoing.stop()
})

const provider = createProviders({
  outgoing,
  config: {
    corp: {
      enabled: true,
      client_id: 'us',
      client_secret: 's'.repeat(40),
      issuer,
      authorize_url: '',
      token_url: '',
      userinfo_url: '',
      scopes: [],
    },
  },
})('corp')

const idToken = (claims: object, key: jose.CryptoKey = privateKey, alg = 'RS256') => {
  const now = Math.floor(Date.now() / 1000)
  const whole = {
    iss: issuer,
    aud: 'us',
    sub: 'ana',
    nonce: 'no',
    iat: now,
    exp: now + 300,
    email: 'ana@x.test',
    email_verified: true,
  }
  return new jose.SignJWT({ ...whole, ...claims }).setProtectedHeader({ alg }).sign(key)
}
const come = () => provider.exchange(ask, new URLSearchParams({ code: 'c', state: 'st' }))
const statusOf = async (work: Promise<unknown>) =>
  work.then(
    () => 200,
    (error) => (error instanceof AppError ? error.status : `${error}`),
  )

test('a good ID token names its subject', async () => {
  state.idToken = await idToken({})
  assert.deepEqual(await come(), { provider: 'corp', subject: 'ana', email: 'ana@x.test', emailVerified: true })
  state.idToken = await idToken({ email_verified: 'false' })
  assert.equal((await come()).emailVerified, false)
  state.idToken = await idToken({ email_verified: undefined })
  assert.equal((await come()).emailVerified, false)
})

test('an address may come from the userinfo endpoint, if it is about the same subject', async () => {
  state.idToken = await idToken({ email: undefined })
  state.userinfo = { sub: 'ana', email: 'there@x.test', email_verified: true }
  assert.equal((await come()).email, 'there@x.test')
  state.userinfo = { sub: 'bo', email: 'bo@x.test', email_verified: true }
  assert.equal(await statusOf(come()), 502)
})

test('ID tokens that are not for us or not from the issuer are refused', async () => {
  const now = Math.floor(Date.now() / 1000)
  const [header, payload] = (await idToken({})).split('.')
  const none = Buffer.from(JSON.stringify({ alg: 'none' })).toString('base64url')
  const bad: Record<string, string> = {
    'wrong audience': await idToken({ aud: 'them' }),
    'several audiences without azp': await idToken({ aud: ['us', 'them'] }),
    'foreign issuer': await idToken({ iss: 'https://evil.test' }),
    'wrong nonce': await idToken({ nonce: 'other' }),
    'no nonce': await idToken({ nonce: undefined }),
    expired: await idToken({ iat: now - 7200, exp: now - 3600 }),
    'foreign key': await idToken({}, stranger.privateKey),
    'alg none': `${none}.${payload}.`,
    'no signature': `${header}.${payload}.`,
    'HS256 with the public key': await new jose.SignJWT({
      iss: issuer,
      aud: 'us',
      sub: 'ana',
      nonce: 'no',
      iat: now,
      exp: now + 300,
    })
      .setProtectedHeader({ alg: 'HS256' })
      .sign(new TextEncoder().encode(JSON.stringify(await jose.exportJWK(publicKey)))),
    'no token at all': '',
  }
  for (const [name, token] of Object.entries(bad)) {
    state.idToken = token
    const status = await statusOf(come())
    assert.equal(status, 400, name)
  }
})

test('an issuer that cannot be asked is a bad gateway', async () => {
  state.idToken = await idToken({})
  state.tokenStatus = 500
  assert.equal(await statusOf(come()), 502)
  state.tokenStatus = 200
  const nowhere = createProviders({
    outgoing,
    config: {
      corp: {
        enabled: true,
        client_id: 'us',
        client_secret: 's',
        issuer: 'http://127.0.0.1:9',
        authorize_url: '',
        token_url: '',
        userinfo_url: '',
        scopes: [],
      },
    },
  })('corp')
  assert.equal(await statusOf(nowhere.authorizeUrl(ask)), 502)
})

test('an access token that names another client is refused', async () => {
  const token = (claims: object) => `x.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.y`
  state.userinfo = { sub: 'ana', email: 'ana@x.test', email_verified: true }
  assert.equal((await provider.profileOfToken('opaque')).subject, 'ana')
  assert.equal((await provider.profileOfToken(token({ client_id: 'us', aud: 'https://api' }))).subject, 'ana')
  assert.equal(await statusOf(provider.profileOfToken(token({ client_id: 'them' }))), 400)
  assert.equal(await statusOf(provider.profileOfToken(token({ azp: 'them', client_id: 'us' }))), 400)
  state.userinfo = { sub: 'ana', aud: 'them' }
  assert.equal(await statusOf(provider.profileOfToken('opaque')), 400)
})
