import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  alone,
  authenticator,
  challenge,
  claimsOf,
  enrollTotp,
  firstFactor,
  forgetSteps,
  signUpWithTotp,
} from '../../../test/fakes/authenticator.ts'
import { spawnServer, startServer, type TestServer } from '../../../test/kit/kit.ts'
import { SecretBox } from '../../core/secret-box.ts'

const config = { 'auth.totp_enabled': true, 'server.app_name': 'Shop & Co' }
const api = await startServer({ config })

const enroll = (as: string) => api.call('POST /api/auth/mfa/totp/enroll', { as })
const confirm = (as: string, code: unknown) =>
  api.call('POST /api/auth/mfa/totp/enroll/confirm', { as, json: { code } })
const verify = (as: string, challenge_id: unknown, code: unknown, server: TestServer = api) =>
  server.call('POST /api/auth/mfa/totp/verify', { as, json: { challenge_id, code } })
const told = ({ status, body }: { status: number; body: { message?: string } }) => [status, body.message]

test('an authenticator app is enrolled with a code of its own, and then asked for', async () => {
  const { token, user } = await api.signUp('ana@x.test')
  const { status, body } = await enroll(token)
  assert.equal(status, 200)
  assert.deepEqual(Object.keys(body).toSorted(), ['factor_id', 'secret', 'uri'])
  assert.match(body.secret, /^[A-Z2-7]{32}$/)
  assert.equal(
    body.uri,
    `otpauth://totp/Shop%20%26%20Co:ana@x.test?secret=${body.secret}&issuer=Shop%20%26%20Co&algorithm=SHA1&digits=6&period=30`,
  )
  const [stored] = await api.sql('select secret from svc.mfa_factors where user_id = $1', [user.id])
  assert.match(stored.secret, /^v1\./)
  assert.ok(!stored.secret.includes(body.secret))
  const login = { email: 'ana@x.test', password: 'long enough password' }
  assert.ok((await api.call('POST /api/auth/login', { json: login })).body.token, 'a pending factor is none')

  const app = authenticator(body.uri)
  assert.deepEqual(told(await confirm(token, app.wrongCode())), [401, 'invalid TOTP code'])
  const code = app.code()
  assert.equal((await confirm(token, `${code.slice(0, 3)} ${code.slice(3)}`)).status, 200)
  assert.deepEqual(told(await confirm(token, app.code(1))), [404, 'no pending TOTP enrollment found'])
  assert.deepEqual(told(await enroll(token)), [409, 'TOTP MFA already enrolled'])

  const as = await firstFactor(api, 'ana@x.test')
  const id = await challenge(api, 'totp', as)
  assert.deepEqual(told(await verify(as, id, code)), [401, 'TOTP code already used'], 'the enrolment used it')
  const verified = await verify(as, id, app.code(1))
  assert.equal(verified.status, 200)
  assert.deepEqual(Object.keys(verified.body), ['token', 'refreshToken', 'user'])
  assert.equal(verified.body.user.id, user.id)
  const { aal, amr, mfa_pending } = claimsOf(verified.body.token)
  assert.deepEqual([aal, amr, mfa_pending], ['aal2', ['password', 'totp'], false])
  const refreshed = await api.call('POST /api/auth/refresh', { json: { refreshToken: verified.body.refreshToken } })
  assert.deepEqual([claimsOf(refreshed.body.token).aal, claimsOf(refreshed.body.token).amr], ['aal2', amr])
})

test('one step before and after the current one is accepted, and no other', async () => {
  const { user, app } = await signUpWithTotp(api, 'window@x.test')
  await app.steady()
  for (const [steps, status] of [
    [-3, 401],
    [-2, 401],
    [-1, 200],
    [0, 200],
    [1, 200],
    [3, 401],
  ] as const) {
    const as = await firstFactor(api, 'window@x.test')
    await forgetSteps(api, user.id)
    assert.equal((await verify(as, await challenge(api, 'totp', as), app.code(steps))).status, status, `${steps} steps`)
  }
})

test('a used step and those before it are refused, whatever the clock of the server says', async () => {
  const { app } = await signUpWithTotp(api, 'replay@x.test')
  await app.steady()
  const as = await firstFactor(api, 'replay@x.test')
  assert.equal((await verify(as, await challenge(api, 'totp', as), app.code())).status, 200)
  const again = await firstFactor(api, 'replay@x.test')
  const id = await challenge(api, 'totp', again)
  for (const steps of [0, -1]) {
    assert.deepEqual(told(await verify(again, id, app.code(steps))), [401, 'TOTP code already used'])
  }
  assert.equal((await verify(again, id, app.code(1))).status, 200, 'a newer one is good, with the same challenge')

  // The step is compared with what is stored, so that a clock which goes back revives nothing.
  const late = await firstFactor(api, 'replay@x.test')
  await api.sql('update svc.mfa_factors set last_step = last_step + 10')
  assert.deepEqual(told(await verify(late, await challenge(api, 'totp', late), app.code(1))), [
    401,
    'TOTP code already used',
  ])
})

test('time is what the database says: a server whose clock is wrong accepts and refuses the same codes', async (t) => {
  const { app } = await signUpWithTotp(api, 'clock@x.test')
  await app.steady()
  const as = await firstFactor(api, 'clock@x.test')
  const id = await challenge(api, 'totp', as)
  const [right, anHourAgo] = [app.code(), app.code(-120)]
  const now = Date.now()
  t.mock.method(Date, 'now', () => now - 3_600_000)
  assert.equal((await verify(as, id, anHourAgo)).status, 401)
  assert.equal((await verify(as, id, right)).status, 200)
})

test('of twenty verifies with one code, over two processes, exactly one succeeds', async () => {
  const [one, two] = await Promise.all([
    spawnServer({ on: api, config: { 'auth.totp_enabled': true } }),
    spawnServer({ on: api, config: { 'auth.totp_enabled': true } }),
  ])
  const { user, app } = await signUpWithTotp(api, 'race@x.test')

  for (const distinct of [true, false]) {
    await forgetSteps(api, user.id)
    const shared = await firstFactor(api, 'race@x.test')
    const sharedChallenge = await challenge(api, 'totp', shared)
    const tries = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const as = distinct ? await firstFactor(api, 'race@x.test') : shared
        return { as, id: distinct ? await challenge(api, 'totp', as) : sharedChallenge }
      }),
    )
    const code = app.code()
    const before = await api.sql('select 1 from svc.sessions where user_id = $1', [user.id])
    const answers = await Promise.all(tries.map(({ as, id }, i) => verify(as, id, code, i % 2 ? one : two)))
    assert.equal(answers.filter(({ status }) => status === 200).length, 1)
    const others = answers.filter(({ status }) => status !== 200).map((answer) => told(answer))
    for (const other of others) {
      assert.deepEqual(other, distinct ? [401, 'TOTP code already used'] : [409, 'challenge already verified'])
    }
    const after = await api.sql('select 1 from svc.sessions where user_id = $1', [user.id])
    assert.equal(after.length - before.length, 1)
  }
  const as = await firstFactor(api, 'race@x.test')
  await forgetSteps(api, user.id)
  const again = await verify(as, await challenge(api, 'totp', as), app.code())
  assert.equal(again.status, 200, 'a code that was used twice locks nobody out')
  await Promise.all([one.stop(), two.stop()])
})

test('an MFA token opens one session, also with a second right code', async () => {
  const { user, app } = await signUpWithTotp(api, 'once@x.test')
  const as = await firstFactor(api, 'once@x.test')
  const id = await challenge(api, 'totp', as)
  assert.equal((await verify(as, id, app.code())).status, 200)
  assert.deepEqual(told(await verify(as, id, app.code(1))), [409, 'challenge already verified'])
  const next = await challenge(api, 'totp', as)
  assert.deepEqual(told(await verify(as, next, app.code(1))), [401, 'invalid or expired token'])
  assert.equal((await api.sql('select 1 from svc.sessions where user_id = $1', [user.id])).length, 2)
})

test('a challenge is good for five minutes, for its own user and for its own method', async () => {
  const mine = await signUpWithTotp(api, 'mine@x.test')
  await signUpWithTotp(api, 'theirs@x.test')
  const [as, theirs] = [await firstFactor(api, 'mine@x.test'), await firstFactor(api, 'theirs@x.test')]
  const gone = [404, 'challenge not found or expired']
  const code = mine.app.code()
  for (const id of [
    await challenge(api, 'totp', theirs),
    'x',
    '00000000-0000-4000-8000-000000000000',
    `{${'0'.repeat(32)}}`,
  ]) {
    assert.deepEqual(told(await verify(as, id, code)), gone, id)
  }
  const id = await challenge(api, 'totp', as)
  for (const method of ['email', 'sms'] as const) {
    const answer = await api.call(`POST /api/auth/mfa/${method}/verify`, { as, json: { challenge_id: id, code } })
    assert.deepEqual(told(answer), gone)
  }
  const [{ seconds }] = await api.sql(
    'select round(extract(epoch from expires_at - created_at))::text as seconds from svc.mfa_challenges where id = $1',
    [id],
  )
  assert.equal(seconds, '300')
  await api.sql(`update svc.mfa_challenges set expires_at = now() where id = $1`, [id])
  assert.deepEqual(told(await verify(as, id, code)), gone)
  assert.equal((await verify(as, await challenge(api, 'totp', as), code)).status, 200, 'and none of it spent the code')
})

test('a new enrolment replaces a pending one, and ten minutes end it', async () => {
  const { token, user } = await api.signUp('pending@x.test')
  const first = authenticator((await enroll(token)).body.uri)
  const second = authenticator((await enroll(token)).body.uri)
  assert.deepEqual(told(await confirm(token, first.code())), [401, 'invalid TOTP code'])
  await api.sql(`update svc.mfa_factors set created_at = now() - interval '601 seconds' where user_id = $1`, [user.id])
  assert.deepEqual(told(await confirm(token, second.code())), [404, 'no pending TOTP enrollment found'])

  const kept = await api.signUp('young@x.test')
  const app = authenticator((await enroll(kept.token)).body.uri)
  const confirmed = await signUpWithTotp(api, 'old@x.test')
  await api.sql(`update svc.mfa_factors set created_at = now() - interval '1 day' where user_id = $1`, [
    confirmed.user.id,
  ])
  assert.equal(await api.app.cleanups['unverified_totp_cleanup']?.(), 1)
  assert.equal((await confirm(kept.token, app.code())).status, 200)
  await firstFactor(api, 'old@x.test')
})

test('the secret is shown once and is in no log', async () => {
  const loud = await startServer({ on: api, config: { ...config, 'log.level': 'debug' } })
  const { token, user } = await loud.signUp('quiet@x.test')
  const { secret, uri } = (await loud.call('POST /api/auth/mfa/totp/enroll', { as: token })).body
  const code = authenticator(uri).code()
  await loud.call('POST /api/auth/mfa/totp/enroll/confirm', { as: token, json: { code } })
  const as = await firstFactor(loud, 'quiet@x.test')
  const id = await challenge(loud, 'totp', as)
  await verify(as, id, authenticator(uri).code(1), loud)
  const factors = await loud.call('GET /api/auth/mfa/factors', { as: token })
  const said = JSON.stringify(loud.observations) + factors.text
  assert.ok(said.includes('/api/auth/mfa/totp/enroll/confirm'))
  for (const hidden of [secret, code, authenticator(uri).code(1), as]) assert.doesNotMatch(said, alone(hidden))
  const rows = JSON.stringify(await api.sql('select * from svc.mfa_factors where user_id = $1', [user.id]))
  assert.ok(!rows.includes(secret))
})

test('a configured encryption key is the one that secrets are stored under', async () => {
  const key = 'a'.repeat(64)
  const keyed = await startServer({ config: { ...config, 'auth.encryption_key': key } })
  const { token, user } = await keyed.signUp('keyed@x.test')
  const app = await enrollTotp(keyed, token, user.id)
  const [row] = await keyed.sql('select id, secret from svc.mfa_factors')
  assert.match(new SecretBox(Buffer.from(key, 'hex')).open(row.secret, `totp ${row.id}`), /^[0-9a-f]{40}$/)
  const same = await startServer({ on: keyed, config: { ...config, 'auth.encryption_key': key } })
  const as = await firstFactor(same, 'keyed@x.test')
  assert.equal((await verify(as, await challenge(same, 'totp', as), app.code(), same)).status, 200)
})
