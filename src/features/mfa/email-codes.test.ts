import assert from 'node:assert/strict'
import { test } from 'node:test'
import { alone, challenge, claimsOf, firstFactor } from '../../../test/fakes/authenticator.ts'
import { mailServer, smtp } from '../../../test/fakes/mail-server.ts'
import { eventually, startServer, type TestServer } from '../../../test/kit/kit.ts'

const { inbox, listen } = mailServer()
const config = { ...smtp(await listen()), 'auth.email_mfa_enabled': true, 'log.level': 'debug' }
const api = await startServer({ config })
const other = await startServer({ config, on: api })

const codesTo = (to: string): string[] =>
  inbox.filter((mail) => mail.to === to).flatMap(({ text }) => /verification code:\s+(\d{6})\b/.exec(text)?.[1] ?? [])

/** Waits for the given number of codes to an address and resolves to the last one. */
const mailed = (to: string, count = 1): Promise<string> =>
  eventually(() => {
    const codes = codesTo(to)
    assert.equal(codes.length, count)
    return codes.at(-1) ?? ''
  })
/** Mails leave in the order of the queue, so what was queued before this one is out when it is. */
const allSent = () => eventually(async () => assert.deepEqual(await api.sql(`select from svc.queue`), []))

const enroll = (as: string) => api.call('POST /api/auth/mfa/email/enroll', { as })
const confirm = (as: string, code: unknown) =>
  api.call('POST /api/auth/mfa/email/enroll/confirm', { as, json: { code } })
const ask = (as: string, server: TestServer = api) => server.call('POST /api/auth/mfa/email/challenge', { as })
const verify = (as: string, challenge_id: unknown, code: unknown, server: TestServer = api) =>
  server.call('POST /api/auth/mfa/email/verify', { as, json: { challenge_id, code } })
const told = ({ status, body }: { status: number; body: { message?: string } }) => [status, body.message]
const wrongFor = (code: string) => (code === '000000' ? '111111' : '000000')

async function signUpWithEmailCodes(email: string) {
  const signedUp = await api.signUp(email)
  assert.equal((await enroll(signedUp.token)).status, 200)
  assert.equal((await confirm(signedUp.token, await mailed(email))).status, 200)
  return signedUp
}
/** As if the mails so far had been sent long ago. */
const forgetMails = () => api.sql(`update svc.mfa_limits set mails = '{}', enrolment_mails = '{}'`)

test('codes by mail are enrolled with one, and each sign-in gets its own', async () => {
  const { token, user } = await api.signUp('ana@x.test')
  assert.deepEqual(told(await confirm(token, '123456')), [404, 'no pending email MFA enrollment found'])
  const asked = await enroll(token)
  assert.deepEqual([asked.status, Object.keys(asked.body)], [200, ['message']])
  const code = await mailed('ana@x.test')
  assert.deepEqual(told(await confirm(token, wrongFor(code))), [401, 'invalid email MFA code'])
  assert.equal((await confirm(token, code)).status, 200)
  assert.deepEqual(told(await confirm(token, code)), [404, 'no pending email MFA enrollment found'])
  assert.deepEqual(told(await enroll(token)), [409, 'email MFA already enrolled'])
  assert.equal((await api.call('GET /api/auth/me', { as: token })).body.emailVerified, true)

  const as = await firstFactor(api, 'ana@x.test')
  const { status, body } = await ask(as)
  assert.deepEqual([status, Object.keys(body)], [200, ['challenge_id']])
  const second = await mailed('ana@x.test', 2)
  assert.deepEqual(told(await verify(as, body.challenge_id, wrongFor(second))), [401, 'invalid email MFA code'])
  const verified = await verify(as, body.challenge_id, second)
  assert.deepEqual([verified.status, verified.body.user.id], [200, user.id])
  const { aal, amr } = claimsOf(verified.body.token)
  assert.deepEqual([aal, amr], ['aal2', ['password', 'email']])
  assert.deepEqual(told(await verify(as, body.challenge_id, second)), [409, 'challenge already verified'])

  const said = JSON.stringify([...api.observations, ...other.observations])
  assert.ok(said.includes('/api/auth/mfa/email/verify'))
  for (const hidden of [code, second, as]) assert.doesNotMatch(said, alone(hidden), 'no code is in a log')
  const rows = JSON.stringify(await api.sql('select * from svc.mfa_challenges'))
  for (const hidden of [code, second]) assert.doesNotMatch(rows, alone(hidden))
})

test('of parallel verifies with the right code exactly one succeeds', async () => {
  const { user } = await signUpWithEmailCodes('race@x.test')
  const as = await firstFactor(api, 'race@x.test')
  const id = await challenge(api, 'email', as)
  const code = await mailed('race@x.test', 2)
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => verify(as, id, code, i % 2 ? api : other)))
  assert.equal(answers.filter(({ status }) => status === 200).length, 1)
  assert.equal(answers.filter(({ status }) => status === 409).length, 19)
  assert.equal((await api.sql('select 1 from svc.sessions where user_id = $1', [user.id])).length, 2)
})

test('a code dies after five wrong tries, counted also when they come at once', async () => {
  await signUpWithEmailCodes('five@x.test')
  const as = await firstFactor(api, 'five@x.test')
  const id = await challenge(api, 'email', as)
  const code = await mailed('five@x.test', 2)
  const tries = await Promise.all(
    Array.from({ length: 9 }, (_, i) => verify(as, id, wrongFor(code), i % 2 ? api : other)),
  )
  assert.equal(tries.filter(({ status }) => status === 401).length, 5)
  assert.equal(tries.filter(({ status }) => status === 429).length, 4)
  const dead = await verify(as, id, code)
  assert.deepEqual(told(dead), [429, 'too many failed attempts, try again later'])
  assert.ok(Number(dead.headers.get('retry-after')) >= 1)
  const next = await challenge(api, 'email', as)
  assert.equal((await verify(as, next, await mailed('five@x.test', 3))).status, 200, 'a new code is a new chance')

  const enrolling = await api.signUp('five-enrol@x.test')
  await enroll(enrolling.token)
  const first = await mailed('five-enrol@x.test')
  for (let i = 0; i < 5; i++) assert.equal((await confirm(enrolling.token, wrongFor(first))).status, 401)
  assert.equal((await confirm(enrolling.token, first)).status, 429)
})

test('a code is good for ten minutes', async () => {
  const { token } = await api.signUp('late@x.test')
  await enroll(token)
  const code = await mailed('late@x.test')
  await api.sql(`update svc.mfa_challenges set expires_at = now() where verified_at is null`)
  assert.deepEqual(told(await confirm(token, code)), [410, 'email MFA code expired'])
  await enroll(token)
  assert.equal((await confirm(token, await mailed('late@x.test', 2))).status, 200)
  const as = await firstFactor(api, 'late@x.test')
  const id = await challenge(api, 'email', as)
  const [{ seconds }] = await api.sql(
    'select round(extract(epoch from expires_at - created_at))::text as seconds from svc.mfa_challenges where id = $1',
    [id],
  )
  assert.equal(seconds, '600')
  await api.sql(`update svc.mfa_challenges set expires_at = now() where id = $1`, [id])
  assert.deepEqual(told(await verify(as, id, await mailed('late@x.test', 3))), [410, 'email MFA code expired'])
  assert.deepEqual(told(await verify(as, '00000000-0000-4000-8000-000000000000', '123456')), [
    404,
    'challenge not found or expired',
  ])
})

test('three challenges in ten minutes beside the enrolment, over all processes, and no fourth', async () => {
  await signUpWithEmailCodes('flood@x.test')
  const as = await firstFactor(api, 'flood@x.test')
  const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => ask(as, i % 2 ? api : other)))
  assert.equal(answers.filter(({ status }) => status === 200).length, 3)
  for (const answer of answers.filter(({ status }) => status !== 200)) {
    assert.deepEqual(told(answer), [429, 'too many requests'])
    const wait = Number(answer.headers.get('retry-after'))
    assert.ok(wait > 500 && wait <= 600, `${wait}`)
  }
  await allSent()
  assert.equal(codesTo('flood@x.test').length, 4)

  // Any ten minutes: the first two are over, the third is not.
  const ago = (minutes: number) => `now() - interval '${minutes} minutes'`
  await api.sql(`update svc.mfa_limits l set mails = array[${ago(12)}, ${ago(11)}, ${ago(1)}]
    from svc.users u where u.id = l.user_id and u.email = 'flood@x.test'`)
  assert.deepEqual([(await ask(as)).status, (await ask(as)).status, (await ask(as)).status], [200, 200, 429])

  const enrolling = await api.signUp('flood-enrol@x.test')
  const statuses = []
  for (let i = 0; i < 4; i++) statuses.push((await enroll(enrolling.token)).status)
  assert.deepEqual(statuses, [200, 200, 200, 429])
  const bystander = await api.signUp('bystander@x.test')
  assert.equal((await enroll(bystander.token)).status, 200)
})

test('a code belongs to one challenge of one user', async () => {
  await forgetMails()
  await signUpWithEmailCodes('mine@x.test')
  await signUpWithEmailCodes('theirs@x.test')
  const [as, theirs] = [await firstFactor(api, 'mine@x.test'), await firstFactor(api, 'theirs@x.test')]
  const [mine, foreign] = [await challenge(api, 'email', as), await challenge(api, 'email', theirs)]
  const foreignCode = await mailed('theirs@x.test', 2)
  assert.deepEqual(told(await verify(as, foreign, foreignCode)), [404, 'challenge not found or expired'])
  if (foreignCode !== (await mailed('mine@x.test', 2))) {
    assert.equal((await verify(as, mine, foreignCode)).status, 401)
  }
  assert.equal((await verify(theirs, foreign, foreignCode)).status, 200)
})

test('an account without an address has no codes by mail', async () => {
  const sms = await startServer({
    on: api,
    config: { ...config, 'auth.sms_enabled': true, 'auth.sms_test_phone_numbers': { '+41790000001': '424242' } },
  })
  await sms.call('POST /api/auth/sms', { json: { phone: '+41790000001' } })
  const json = { phone: '+41790000001', code: '424242' }
  const { body } = await sms.call('POST /api/auth/sms/confirm', { json })
  assert.deepEqual(told(await enroll(body.token)), [400, 'account has no email address'])
  assert.deepEqual(told(await confirm(body.token, '1')), [404, 'no pending email MFA enrollment found'])
})
