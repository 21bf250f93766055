import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimsOf, firstFactor, signInWithTotp, signUpWithTotp } from '../../../test/fakes/authenticator.ts'
import { startServer, type TestServer } from '../../../test/kit/kit.ts'

const config = { 'auth.totp_enabled': true }
const api = await startServer({ config })
const other = await startServer({ config, on: api })

const generate = (as: string) => api.call('POST /api/auth/mfa/backup/generate', { as })
const regenerate = (as: string) => api.call('POST /api/auth/mfa/backup/regenerate', { as })
const count = async (as: string) => (await api.call('GET /api/auth/mfa/backup/count', { as })).body
const verify = (as: string, code: unknown, server: TestServer = api) =>
  server.call('POST /api/auth/mfa/backup/verify', { as, json: { code } })
const told = ({ status, body }: { status: number; body: { message?: string } }) => [status, body.message]
const REFUSED = [401, 'invalid or already used backup code']

async function signUpWithCodes(email: string) {
  const { user, token, app } = await signUpWithTotp(api, email)
  const full = await signInWithTotp(api, email, user.id, app)
  const { status, body } = await generate(full.token)
  assert.equal(status, 200)
  return { user, aal1: token, aal2: full.token, codes: body.codes as string[] }
}

test('ten codes are made, shown once, and kept as hashes', async () => {
  const { aal1, aal2, codes, user } = await signUpWithCodes('ana@x.test')
  assert.equal(new Set(codes).size, 10)
  for (const code of codes)
    assert.match(code, /^[abcdefghjkmnpqrstuvwxyz23456789]{5}-[abcdefghjkmnpqrstuvwxyz23456789]{5}$/)
  assert.deepEqual([await count(aal1), await count(aal2)], [{ remaining: 10 }, { remaining: 10 }])
  const rows = JSON.stringify(await api.sql('select * from svc.mfa_backup_codes where user_id = $1', [user.id]))
  for (const code of codes) assert.ok(!rows.includes(code) && !rows.includes(code.replace('-', '')))
})

test('making codes needs both factors', async () => {
  const { token } = await api.signUp('one@x.test')
  for (const answer of [await generate(token), await regenerate(token)]) {
    assert.deepEqual(
      [answer.status, answer.body],
      [
        403,
        {
          code: 403,
          error: 'insufficient_aal',
          message: 'insufficient authentication assurance level: aal2 required',
          data: { aal: { code: 'insufficient_aal', message: 'aal2 required' } },
        },
      ],
    )
  }
  assert.deepEqual(await count(token), { remaining: 0 })
})

test('a code is a second factor once, in any case and with or without its hyphen', async () => {
  const { codes, aal2 } = await signUpWithCodes('once@x.test')
  const [first = '', second = '', third = ''] = codes
  const as = await firstFactor(api, 'once@x.test')
  const { status, body } = await verify(as, first)
  assert.equal(status, 200)
  const { aal, amr } = claimsOf(body.token)
  assert.deepEqual([aal, amr], ['aal2', ['password', 'backup_code']])
  assert.deepEqual(await count(aal2), { remaining: 9 })

  const again = await firstFactor(api, 'once@x.test')
  assert.deepEqual(told(await verify(again, first)), REFUSED)
  assert.equal((await verify(again, ` ${second.toUpperCase()} `)).status, 200)
  assert.equal((await verify(await firstFactor(api, 'once@x.test'), third.replace('-', ''))).status, 200)
  assert.deepEqual(await count(aal2), { remaining: 7 })
  for (const wrong of ['aaaaa-aaaaa', 'x', codes[4]?.slice(1)]) {
    assert.deepEqual(told(await verify(await firstFactor(api, 'once@x.test'), wrong)), REFUSED)
  }
})

test('of parallel verifies with one code exactly one succeeds', async () => {
  const { codes, user, aal2 } = await signUpWithCodes('race@x.test')
  const [code = '', next = ''] = codes
  const tokens = await Promise.all(Array.from({ length: 20 }, () => firstFactor(api, 'race@x.test')))
  const before = await api.sql('select 1 from svc.sessions where user_id = $1', [user.id])
  const answers = await Promise.all(tokens.map((as, i) => verify(as, code, i % 2 ? api : other)))
  assert.equal(answers.filter(({ status }) => status === 200).length, 1)
  assert.equal(answers.filter(({ status }) => status === 401).length, 19)
  const after = await api.sql('select 1 from svc.sessions where user_id = $1', [user.id])
  assert.equal(after.length - before.length, 1)

  // One MFA token, all ten codes: still one session, and only one code is gone.
  const as = await firstFactor(api, 'race@x.test')
  const all = await Promise.all(codes.slice(2).map((one, i) => verify(as, one, i % 2 ? api : other)))
  assert.equal(all.filter(({ status }) => status === 200).length, 1)
  assert.deepEqual(await count(aal2), { remaining: 8 })
  assert.equal((await verify(await firstFactor(api, 'race@x.test'), next)).status, 200)
})

test('new codes end the old ones', async () => {
  const { codes, aal2 } = await signUpWithCodes('renew@x.test')
  const { status, body } = await regenerate(aal2)
  assert.equal(status, 200)
  assert.deepEqual(await count(aal2), { remaining: 10 })
  const as = await firstFactor(api, 'renew@x.test')
  assert.deepEqual(told(await verify(as, codes[0])), REFUSED)
  assert.equal((await generate(aal2)).status, 200)
  assert.deepEqual(told(await verify(as, body.codes[0])), REFUSED, 'also a second generate replaces them')

  const racing = await Promise.all([generate(aal2), regenerate(aal2), generate(aal2)])
  assert.deepEqual(
    racing.map((answer) => answer.status),
    [200, 200, 200],
  )
  assert.deepEqual(await count(aal2), { remaining: 10 })
})

test('codes are of one user, and alone they are no second factor', async () => {
  const mine = await signUpWithCodes('mine@x.test')
  await signUpWithCodes('theirs@x.test')
  assert.deepEqual(told(await verify(await firstFactor(api, 'theirs@x.test'), mine.codes[0])), REFUSED)

  await api.sql('delete from svc.mfa_factors where user_id = $1', [mine.user.id])
  const json = { email: 'mine@x.test', password: 'long enough password' }
  const login = await api.call('POST /api/auth/login', { json })
  assert.ok(login.body.token)
})
