import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Authenticator,
  challenge,
  enrollTotp,
  firstFactor,
  forgetSteps,
  signInWithTotp,
  signUpWithTotp,
} from '../../../test/fakes/authenticator.ts'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { eventually, spawnServer, startServer, type TestServer } from '../../../test/kit/kit.ts'

const config = {
  'auth.totp_enabled': true,
  'auth.email_mfa_enabled': true,
  'auth.sms_enabled': true,
  'auth.sms_test_phone_numbers': { '+41790000001': '424242' },
  'auth.sms_max_attempts': 100,
}
const api = await startServer({ config })
const other = await startServer({ config, on: api })
const mail = mailbox(api)

const told = ({ status, body }: { status: number; body: { message?: string } }) => [status, body.message]
const LOCKED = [429, 'too many failed attempts, try again later']
const verify = (method: string, as: string, json: object, server: TestServer = api) =>
  server.call(`POST /api/auth/mfa/${method}/verify`, { as, json })

/** A user with every kind of second factor. */
async function everything(email: string): Promise<{ id: string; app: Authenticator; codes: string[] }> {
  const { user, app } = await signUpWithTotp(api, email)
  const { token } = await signInWithTotp(api, email, user.id, app)
  await api.call('POST /api/auth/mfa/email/enroll', { as: token })
  const confirm = { code: await mail.mailedCode(email) }
  assert.equal((await api.call('POST /api/auth/mfa/email/enroll/confirm', { as: token, json: confirm })).status, 200)
  await api.call('POST /api/auth/mfa/sms/enroll', { as: token, json: { phone: '+41790000001' } })
  const json = { code: '424242' }
  assert.equal((await api.call('POST /api/auth/mfa/sms/enroll/confirm', { as: token, json })).status, 200)
  const { codes } = (await api.call('POST /api/auth/mfa/backup/generate', { as: token })).body
  return { id: user.id, app, codes }
}

const failures = async (userId: string): Promise<number> => {
  const [row] = await api.sql('select cardinality(failures)::text as n from svc.mfa_limits where user_id = $1', [
    userId,
  ])
  return Number(row?.n ?? 0)
}

async function wrongTotp(email: string, app: Authenticator, times: number): Promise<number[]> {
  const as = await firstFactor(api, email)
  const challenge_id = await challenge(api, 'totp', as)
  const tries = Array.from({ length: times }, (_, i) =>
    verify('totp', as, { challenge_id, code: app.wrongCode() }, i % 2 ? api : other),
  )
  return (await Promise.all(tries)).map(({ status }) => status)
}

test('fifteen failures over all methods lock all of them for half an hour, everywhere', async () => {
  const { app, codes, id } = await everything('ana@x.test')
  const bystander = await signUpWithTotp(api, 'bo@x.test')
  const as = await firstFactor(api, 'ana@x.test')
  const totp = await challenge(api, 'totp', as)
  const email = await challenge(api, 'email', as)
  const sms = await challenge(api, 'sms', as)
  const code = await mail.mailedCode('ana@x.test', 2)
  const wrong = code === '000000' ? '111111' : '000000'
  for (let i = 0; i < 4; i++) {
    const server = i % 2 ? api : other
    for (const answer of [
      await verify('totp', as, { challenge_id: totp, code: app.wrongCode() }, server),
      await verify('email', as, { challenge_id: email, code: wrong }, server),
      await verify('sms', as, { challenge_id: sms, code: '000000' }, server),
      ...(i < 3 ? [await verify('backup', as, { code: 'aaaaa-aaaaa' }, server)] : []),
    ]) {
      assert.equal(answer.status, 401)
    }
  }

  await forgetSteps(api, id)
  const again = await firstFactor(api, 'ana@x.test')
  const sent = mail.mails('ana@x.test').length
  for (const server of [api, other]) {
    for (const [token, line, json] of [
      [as, 'totp/verify', { challenge_id: totp, code: app.code() }],
      [again, 'email/verify', { challenge_id: email, code }],
      [as, 'sms/verify', { challenge_id: sms, code: '424242' }],
      [again, 'backup/verify', { code: codes[0] }],
      [again, 'totp/challenge', {}],
      [again, 'email/challenge', {}],
      [as, 'sms/challenge', {}],
    ] as const) {
      const answer = await server.call(`POST /api/auth/mfa/${line}`, { as: token, json })
      assert.deepEqual(told(answer), LOCKED, line)
      const wait = Number(answer.headers.get('retry-after'))
      assert.ok(wait > 1700 && wait <= 1800, `${line} ${wait}`)
    }
  }
  assert.equal(mail.mails('ana@x.test').length, sent)

  const bo = await firstFactor(api, 'bo@x.test')
  const theirs = { challenge_id: await challenge(api, 'totp', bo), code: bystander.app.code() }
  assert.equal((await verify('totp', bo, theirs)).status, 200, 'nobody else is locked')

  await api.sql(`update svc.mfa_limits set locked_until = now() where user_id = $1`, [id])
  const right = { challenge_id: await challenge(api, 'totp', again), code: app.code() }
  assert.equal((await verify('totp', again, right)).status, 200, 'the lock ends by itself')
})

test('failures that come at once are all counted, and no more than fifteen are judged', async () => {
  const { app } = await signUpWithTotp(api, 'burst@x.test')
  const statuses = await wrongTotp('burst@x.test', app, 40)
  assert.equal(statuses.filter((status) => status === 401).length, 15)
  assert.equal(statuses.filter((status) => status === 429).length, 25)
})

test('a success starts the count anew', async () => {
  const { app, user } = await signUpWithTotp(api, 'reset@x.test')
  assert.deepEqual(new Set(await wrongTotp('reset@x.test', app, 14)), new Set([401]))
  assert.equal(await failures(user.id), 14)
  await signInWithTotp(api, 'reset@x.test', user.id, app)
  assert.equal(await failures(user.id), 0)
  assert.deepEqual(new Set(await wrongTotp('reset@x.test', app, 14)), new Set([401]))
})

test('failures older than an hour do not count', async () => {
  const { app, user } = await signUpWithTotp(api, 'old@x.test')
  await wrongTotp('old@x.test', app, 14)
  await api.sql(
    `update svc.mfa_limits set failures = array(select at - interval '1 hour' from unnest(failures) at)
     where user_id = $1`,
    [user.id],
  )
  assert.deepEqual(new Set(await wrongTotp('old@x.test', app, 14)), new Set([401]))
  assert.equal(await failures(user.id), 14)
})

test('what is no guess is no failure', async () => {
  const { app, user } = await signUpWithTotp(api, 'noise@x.test')
  const as = await firstFactor(api, 'noise@x.test')
  const id = await challenge(api, 'totp', as)
  const code = app.code()
  assert.equal((await verify('totp', as, { challenge_id: 'x', code })).status, 404)
  assert.equal((await verify('totp', as, { challenge_id: id })).status, 400)
  assert.equal((await verify('totp', as, { challenge_id: id, code })).status, 200)
  for (let i = 0; i < 20; i++) assert.equal((await verify('totp', as, { challenge_id: id, code })).status, 409)
  const again = await firstFactor(api, 'noise@x.test')
  const next = await challenge(api, 'totp', again)
  assert.deepEqual(told(await verify('totp', again, { challenge_id: next, code })), [401, 'TOTP code already used'])
  assert.equal(await failures(user.id), 0)
})

test('a guess is on record before its answer is, and also when nobody waits for the answer', async () => {
  const victim = await spawnServer({ on: api, config: { 'auth.totp_enabled': true } })
  const { token, user } = await victim.signUp('abort@x.test')
  const app = await enrollTotp(victim, token, user.id)
  const as = await firstFactor(victim, 'abort@x.test')
  const json = { challenge_id: await challenge(victim, 'totp', as), code: app.wrongCode() }

  // The guess is counted before the answer is sent, so a crash of the process gives no extra try.
  for (let i = 1; i <= 3; i++) {
    assert.equal((await verify('totp', as, json, victim)).status, 401)
    assert.equal(await failures(user.id), i)
  }

  // Held up by the account's lock, so that the client is gone before the guess is judged.
  await api.sql('begin')
  await api.sql('select from svc.users where id = $1 for update', [user.id])
  const gone = new AbortController()
  const cut = victim.call('POST /api/auth/mfa/totp/verify', { as, json, signal: gone.signal }).catch(() => undefined)
  await untilWaiting()
  gone.abort()
  await cut
  await api.sql('commit')
  const verdict = await verify('totp', as, json, victim)
  assert.equal(verdict.status, 401)
  assert.equal(await failures(user.id), 5)
  await victim.kill()
})

/** Until some transaction of this database waits for a lock. */
const untilWaiting = () =>
  eventually(async () => {
    const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
    assert.ok((await api.sql(waiting)).length > 0, 'nobody waits')
  })

test('a limit of checks is for an address, over all methods', async () => {
  const limited = await startServer({ on: api, config: { ...config, 'rate_limit.mfa_verify': '10/hour' } })
  const { token, user } = await limited.signUp('limited@x.test')
  const statuses = []
  for (let i = 0; i < 4; i++) {
    for (const line of ['totp', 'email', 'sms']) {
      const answer = await limited.call(`POST /api/auth/mfa/${line}/enroll/confirm`, { as: token, json: { code: '1' } })
      statuses.push(answer.status)
    }
  }
  assert.deepEqual(statuses, [...Array(10).fill(404), 429, 429])
  await enrollTotp(api, token, user.id)
  const as = await firstFactor(api, 'limited@x.test')
  for (const line of ['totp', 'email', 'sms', 'backup']) {
    assert.deepEqual(told(await verify(line, as, { challenge_id: 'x', code: '1' }, limited)), [
      429,
      'too many requests',
    ])
  }
})

test('the cleanup takes what is over and leaves what counts', async () => {
  await api.sql(`update svc.mfa_limits set mails = '{}', failures = '{}', locked_until = null`)
  const kept = await signUpWithTotp(api, 'kept@x.test')
  await wrongTotp('kept@x.test', kept.app, 2)
  const over = await signUpWithTotp(api, 'over@x.test')
  await wrongTotp('over@x.test', over.app, 2)
  await api.sql(`update svc.mfa_limits set failures = array[now() - interval '2 hours'] where user_id = $1`, [
    over.user.id,
  ])
  await api.sql(`update svc.mfa_challenges c set expires_at = now() - interval '1 second'
    from svc.mfa_factors f where f.id = c.factor_id and f.user_id = '${over.user.id}'`)
  await api.app.cleanups['expired_auth_cleanup']?.()
  assert.equal(await failures(kept.user.id), 2)
  assert.deepEqual(await api.sql('select from svc.mfa_limits where user_id = $1', [over.user.id]), [])
  const left = await api.sql(`select f.user_id from svc.mfa_challenges c join svc.mfa_factors f on f.id = c.factor_id`)
  assert.ok(left.some((row) => row.user_id === kept.user.id))
  assert.ok(!left.some((row) => row.user_id === over.user.id))
})
