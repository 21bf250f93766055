import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { alone, challenge, claimsOf, firstFactor } from '../../../test/fakes/authenticator.ts'
import { startReceiver } from '../../../test/fakes/receiver.ts'
import { eventually, startServer, type TestServer } from '../../../test/kit/kit.ts'

const gateway = await startReceiver()
after(() => gateway.close())
const config = {
  'auth.sms_enabled': true,
  'auth.sms_provider': 'webhook',
  'auth.sms_webhook_url': gateway.url,
  'auth.sms_code_length': 8,
  'auth.sms_code_expiry': 120,
  'auth.sms_max_attempts': 2,
  'auth.sms_allowed_countries': ['CH'],
  'auth.sms_test_phone_numbers': { '+41790000001': '12345678' },
  'log.level': 'debug',
}
const api = await startServer({ config })
const other = await startServer({ config, on: api })

const codesTo = (to: string): string[] =>
  gateway.received
    .map(({ body }) => JSON.parse(body) as { to: string; body: string })
    .filter((message) => message.to === to)
    .map(({ body }) => /^Your Savanna code is (\d{8})$/.exec(body)?.[1] ?? body)
const texted = (to: string, count = 1): Promise<string> =>
  eventually(() => {
    const codes = codesTo(to)
    assert.equal(codes.length, count)
    return codes.at(-1) ?? ''
  })

const enroll = (as: string, phone: unknown) => api.call('POST /api/auth/mfa/sms/enroll', { as, json: { phone } })
const confirm = (as: string, code: unknown) => api.call('POST /api/auth/mfa/sms/enroll/confirm', { as, json: { code } })
const verify = (as: string, challenge_id: unknown, code: unknown, server: TestServer = api) =>
  server.call('POST /api/auth/mfa/sms/verify', { as, json: { challenge_id, code } })
const told = ({ status, body }: { status: number; body: { message?: string } }) => [status, body.message]
const wrongFor = (code: string) => (code === '00000000' ? '11111111' : '00000000')

async function signUpWithSms(email: string, phone: string) {
  const signedUp = await api.signUp(email)
  assert.equal((await enroll(signedUp.token, phone)).status, 200)
  assert.equal((await confirm(signedUp.token, await texted(phone))).status, 200)
  return signedUp
}

test('a phone is enrolled with a code, and each sign-in gets its own', async () => {
  const { token, user } = await api.signUp('ana@x.test')
  assert.deepEqual(told(await confirm(token, '1')), [404, 'no pending SMS enrollment found'])
  const asked = await enroll(token, '+41 (79) 123-45.67')
  assert.deepEqual([asked.status, Object.keys(asked.body)], [200, ['message']])
  const code = await texted('+41791234567')
  assert.deepEqual(told(await confirm(token, wrongFor(code))), [401, 'invalid or expired code'])
  assert.equal((await confirm(token, code)).status, 200)
  assert.deepEqual(told(await enroll(token, '+41791234568')), [409, 'SMS MFA already enrolled'])

  const as = await firstFactor(api, 'ana@x.test')
  const { body } = await api.call('POST /api/auth/mfa/sms/challenge', { as })
  assert.deepEqual(Object.keys(body), ['challenge_id', 'message'])
  const second = await texted('+41791234567', 2)
  const verified = await verify(as, body.challenge_id, second)
  assert.deepEqual([verified.status, verified.body.user.id], [200, user.id])
  assert.equal(verified.body.user.phone, undefined, 'the phone of a factor is not the one of the account')
  const { aal, amr } = claimsOf(verified.body.token)
  assert.deepEqual([aal, amr], ['aal2', ['password', 'sms']])
  assert.deepEqual(told(await verify(as, body.challenge_id, second)), [409, 'challenge already verified'])

  const said = JSON.stringify([...api.observations, ...other.observations])
  for (const hidden of [code, second, as]) assert.doesNotMatch(said, alone(hidden), 'no code is in a log')
})

test('of parallel verifies with the right code exactly one succeeds', async () => {
  await signUpWithSms('race@x.test', '+41791000001')
  const as = await firstFactor(api, 'race@x.test')
  const id = await challenge(api, 'sms', as)
  const code = await texted('+41791000001', 2)
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => verify(as, id, code, i % 2 ? api : other)))
  assert.equal(answers.filter(({ status }) => status === 200).length, 1)
  assert.equal(answers.filter(({ status }) => status === 409).length, 19)
})

test('a code dies after the configured number of wrong tries, at sign-in and at enrolment', async () => {
  const { token } = await api.signUp('tries@x.test')
  await enroll(token, '+41791000002')
  const first = await texted('+41791000002')
  for (let i = 0; i < 2; i++) assert.equal((await confirm(token, wrongFor(first))).status, 401)
  assert.deepEqual(told(await confirm(token, first)), [401, 'invalid or expired code'])
  await enroll(token, '+41791000002')
  assert.equal((await confirm(token, await texted('+41791000002', 2))).status, 200)

  const as = await firstFactor(api, 'tries@x.test')
  const id = await challenge(api, 'sms', as)
  const code = await texted('+41791000002', 3)
  const tries = await Promise.all([0, 1].map((i) => verify(as, id, wrongFor(code), i ? api : other)))
  for (const answer of tries) assert.deepEqual(told(answer), [401, 'invalid or expired code'])
  assert.deepEqual(told(await verify(as, id, code)), [401, 'invalid or expired code'])
  const next = await challenge(api, 'sms', as)
  assert.equal((await verify(as, next, await texted('+41791000002', 4))).status, 200)
})

test('a code lives as long as configured, and a new enrolment replaces phone and code', async () => {
  const { token } = await api.signUp('late@x.test')
  await enroll(token, '+41791000003')
  const first = await texted('+41791000003')
  await enroll(token, '+41791000004')
  const second = await texted('+41791000004')
  if (first !== second) assert.equal((await confirm(token, first)).status, 401)
  await api.sql(`update svc.mfa_challenges set expires_at = now() where verified_at is null`)
  assert.deepEqual(told(await confirm(token, second)), [401, 'invalid or expired code'])
  await enroll(token, '+41791000004')
  assert.equal((await confirm(token, await texted('+41791000004', 2))).status, 200)

  const as = await firstFactor(api, 'late@x.test')
  const id = await challenge(api, 'sms', as)
  const [{ seconds }] = await api.sql(
    'select round(extract(epoch from expires_at - created_at))::text as seconds from svc.mfa_challenges where id = $1',
    [id],
  )
  assert.equal(seconds, '120')
  await api.sql(`update svc.mfa_challenges set expires_at = now() where id = $1`, [id])
  assert.deepEqual(told(await verify(as, id, await texted('+41791000004', 3))), [404, 'challenge not found or expired'])
})

test('a test number has a fixed code and is never sent to', async () => {
  const { token } = await api.signUp('fixed@x.test')
  await enroll(token, '+41790000001')
  assert.equal((await confirm(token, '12345678')).status, 200)
  const as = await firstFactor(api, 'fixed@x.test')
  assert.equal((await verify(as, await challenge(api, 'sms', as), '12345678')).status, 200)
  assert.deepEqual(codesTo('+41790000001'), [])
  assert.deepEqual(await api.sql(`select from svc.queue where payload->>'to' = '+41790000001'`), [])
})

test('a number of another country gets the same answer and no message', async () => {
  const { token } = await api.signUp('abroad@x.test')
  assert.equal((await enroll(token, '+12025550123')).status, 200)
  assert.deepEqual(await api.sql(`select from svc.queue where payload->>'to' = '+12025550123'`), [])
})

test('messages for a second factor count on the limit of text messages', async () => {
  const limited = await startServer({ on: api, config: { ...config, 'rate_limit.sms': '2/hour' } })
  const { token } = await limited.signUp('limited@x.test')
  const path = 'POST /api/auth/mfa/sms/enroll'
  await limited.call('POST /api/auth/sms', { json: { phone: '+41790000001' } })
  assert.equal((await limited.call(path, { as: token, json: { phone: '+41790000001' } })).status, 200)
  const refused = await limited.call(path, { as: token, json: { phone: '+41790000001' } })
  assert.deepEqual(told(refused), [429, 'too many requests'])
  const json = { code: '12345678' }
  assert.equal((await limited.call('POST /api/auth/mfa/sms/enroll/confirm', { as: token, json })).status, 200)
  const as = await firstFactor(limited, 'limited@x.test')
  const asked = await limited.call('POST /api/auth/mfa/sms/challenge', { as })
  assert.deepEqual(told(asked), [429, 'too many requests'])
  assert.ok(Number(asked.headers.get('retry-after')) >= 1)
})

test('bad numbers are told what is wrong', async () => {
  const { token } = await api.signUp('bad@x.test')
  for (const [phone, message] of [
    [undefined, 'phone is required'],
    ['', 'phone is required'],
    [null, 'phone is required'],
    ['0791234567', 'invalid phone number format'],
    ['+41 79 abc', 'invalid phone number format'],
    [41791234567, 'phone must be a string'],
    [['+41791234567'], 'phone must be a string'],
    [{}, 'phone must be a string'],
  ]) {
    assert.deepEqual(told(await enroll(token, phone)), [400, message])
  }
})
