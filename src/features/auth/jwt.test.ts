import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import * as jose from 'jose'
import { testKeys } from '../../../test/kit/token-keys.ts'
import { type AccessClaims, type MfaClaims, readJwt, signJwt } from './jwt.ts'

const keys = testKeys()
const now = 1_800_000_000
const access: AccessClaims = {
  sub: 'u',
  iat: now,
  exp: now + 900,
  jti: 'j',
  email: 'a@x.test',
  sid: 's',
  aal: 'aal1',
  amr: ['password'],
  is_anonymous: false,
  mfa_pending: false,
}
const pending: MfaClaims = {
  sub: 'u',
  iat: now,
  exp: now + 300,
  jti: 'j',
  email: 'a@x.test',
  aal: 'aal1',
  amr: ['password'],
  is_anonymous: false,
  mfa_pending: true,
}
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const forge = (header: object, claims: object, key: Buffer, hash = 'sha256') => {
  const signed = `${encode(header)}.${encode(claims)}`
  return `${signed}.${createHmac(hash, key).update(signed).digest('base64url')}`
}

test('what was signed is read back, and another implementation agrees', async () => {
  const token = signJwt('access', access, keys)
  assert.deepEqual(readJwt(token, keys, now), access)
  const seen = await jose.jwtVerify(token, keys.access, {
    algorithms: ['HS256'],
    typ: 'JWT',
    currentDate: new Date(now * 1000),
  })
  assert.deepEqual(seen.payload, { ...access })
})

test('a token is dead in the second of its expiry', () => {
  const token = signJwt('access', access, keys)
  assert.ok(readJwt(token, keys, access.exp - 1))
  assert.equal(readJwt(token, keys, access.exp), undefined)
})

test('an access token does not pass as an MFA token nor the other way round', () => {
  const swapped = testKeys({ access: keys.mfa, mfa: keys.access })
  assert.equal(readJwt(signJwt('mfa', pending, keys), swapped, now), undefined)
  assert.equal(readJwt(signJwt('access', access, keys), swapped, now), undefined)
  assert.equal(readJwt(forge({ alg: 'HS256', typ: 'JWT' }, pending, keys.mfa), keys, now), undefined)
  assert.equal(readJwt(forge({ alg: 'HS256', typ: 'mfa+jwt' }, access, keys.access), keys, now), undefined)
  assert.equal(readJwt(forge({ alg: 'HS256', typ: 'JWT' }, pending, keys.access), keys, now), undefined)
})

test('headers that are not exactly ours are refused even with a right signature', () => {
  const strange = [
    { alg: 'none', typ: 'JWT' },
    { alg: 'None', typ: 'JWT' },
    { alg: 'nOnE', typ: 'JWT' },
    { alg: 'HS256' },
    { typ: 'JWT', alg: 'HS256' },
    { alg: 'HS512', typ: 'JWT' },
    { alg: 'RS256', typ: 'JWT' },
    { alg: 'HS256', typ: 'JWT', crit: ['b64'], b64: false },
    { alg: 'HS256', typ: 'JWT', jku: 'https://evil.test' },
    { alg: 'HS256', typ: 'JWT', kid: '../../dev/null' },
    { alg: 'HS256', typ: 'JWT', cty: 'JWT' },
    { alg: 'HS256', typ: 'JWT', jwk: { kty: 'oct', k: keys.access.toString('base64url') } },
  ]
  for (const header of strange) {
    assert.equal(readJwt(forge(header, access, keys.access), keys, now), undefined, JSON.stringify(header))
  }
})

test('damaged tokens are refused without an exception', () => {
  const token = signJwt('access', access, keys)
  const [header = '', payload = '', signature = ''] = token.split('.')
  const broken = [
    '',
    '.',
    '..',
    '...',
    `${header}.${payload}`,
    `${header}.${payload}.`,
    `${token}.`,
    `${token}.x`,
    `${token}=`,
    `${header}.${encode({ ...access, sub: 'victim' })}.${signature}`,
    `${header}..${signature}`,
    `${header}.${payload}.${signature.slice(0, -1)}`,
    `${header}.${payload}.${'A'.repeat(43)}`,
    ` ${token}`,
    `${header}.${payload}.${signature.slice(0, -1)}${signature.endsWith('A') ? 'B' : 'A'}`,
    `${header}.${'A'.repeat(20_000)}.${signature}`,
    `${'{'.repeat(99)}.x.y`,
  ]
  for (const text of broken) assert.equal(readJwt(text, keys, now), undefined, text.slice(0, 80))
})

test('a token above 16 KiB is refused before it is looked at, even one of ours', () => {
  const huge = signJwt('access', { ...access, email: 'a'.repeat(16_000) }, keys)
  assert.equal(readJwt(huge, keys, now), undefined)
})
