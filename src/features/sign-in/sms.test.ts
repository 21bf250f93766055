import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mailbox } from '../../../test/fakes/mailbox.ts'
import { startServer } from '../../../test/kit/kit.ts'

const config = {
  'auth.sms_enabled': true,
  'auth.sms_allowed_countries': ['CH'],
  'auth.sms_test_phone_numbers': { '+41790000001': '424242' },
}
const api = await startServer({ config })
const other = await startServer({ config, on: api })
const sent = mailbox(api)
const request = (phone: unknown) => api.call('POST /api/auth/sms', { json: { phone } })
const confirm = (phone: unknown, code: unknown, server = api) =>
  server.call('POST /api/auth/sms/confirm', { json: { phone, code } })
const same = { message: 'if valid, a verification code has been sent' }

test('a code by SMS makes an account or signs in to it, once', async () => {
  const asked = await request('+41 (79) 123-45.67')
  assert.deepEqual([asked.status, asked.body], [200, same])
  const code = await sent.code('+41791234567')
  assert.match(code, /^\d{6}$/)
  const race = await Promise.all(
    Array.from({ length: 20 }, (_, i) => confirm('+41791234567', code, i % 2 ? api : other)),
  )
  const won = race.filter(({ status }) => status === 200)
  assert.equal(won.length, 1)
  const { user, token } = won[0]?.body ?? {}
  assert.deepEqual([user.email, user.phone, user.is_anonymous], ['', '+41791234567', false])
  const claims = JSON.parse(Buffer.from(token.split('.')[1], 'base64url').toString())
  assert.deepEqual([claims.amr, claims.aal], [['otp'], 'aal1'])

  await request('+41791234567')
  const typed = (await sent.code('+41791234567', 2)).replace(/^(...)/, ' $1 ')
  const again = await confirm('+41791234567', typed)
  assert.deepEqual([again.status, again.body.user.id], [200, user.id])
})

test('a code dies after three wrong tries, counted also when they come at once', async () => {
  await request('+41791111111')
  const code = await sent.code('+41791111111')
  const wrong = code === '000000' ? '111111' : '000000'
  const tries = await Promise.all(
    Array.from({ length: 3 }, (_, i) => confirm('+41791111111', wrong, i % 2 ? api : other)),
  )
  for (const { status, body } of tries) assert.deepEqual([status, body.message], [401, 'invalid or expired SMS code'])
  assert.equal((await confirm('+41791111111', code)).status, 401)

  await request('+41791111111')
  assert.equal((await confirm('+41791111111', await sent.code('+41791111111', 2))).status, 200)
})

test('a new code replaces the old one, and an expired one is refused', async () => {
  await request('+41792222222')
  const first = await sent.code('+41792222222')
  await request('+41792222222')
  const second = await sent.code('+41792222222', 2)
  if (first !== second) assert.equal((await confirm('+41792222222', first)).status, 401)
  await api.sql(`update svc.sms_codes set expires_at = now() - interval '1 second'`)
  assert.equal((await confirm('+41792222222', second)).status, 401)
})

test('a number that gets no message gets the same answer', async () => {
  const asked = await request('+12025550123')
  assert.deepEqual([asked.status, asked.body], [200, same])
  await request('+41793333333')
  await sent.code('+41793333333')
  assert.deepEqual(await api.sql(`select 1 from svc.queue where payload->>'to' = '+12025550123'`), [])
})

test('a test number has a fixed code and is never sent to', async () => {
  await request('+41790000001')
  assert.equal((await confirm('+41790000001', '424242')).status, 200)
  assert.deepEqual(await api.sql(`select 1 from svc.queue where payload->>'to' = '+41790000001'`), [])
})

test('bad input is told what is wrong', async () => {
  for (const [phone, message] of [
    [undefined, 'phone is required'],
    ['', 'phone is required'],
    ['0791234567', 'invalid phone number format'],
    ['+41', 'invalid phone number format'],
    ['+4179123456789012', 'invalid phone number format'],
    ['+41 79 abc', 'invalid phone number format'],
    [41791234567, 'phone must be a string'],
    [[], 'phone must be a string'],
  ]) {
    const { status, body } = await request(phone)
    assert.deepEqual([status, body.message], [400, message])
  }
  for (const [phone, code, message] of [
    [undefined, '1', 'phone is required'],
    ['+41791234567', undefined, 'code is required'],
    ['+41791234567', '', 'code is required'],
    ['+41791234567', 123456, 'code must be a string'],
    ['+41791234567', { a: 1 }, 'code must be a string'],
  ]) {
    const { status, body } = await confirm(phone, code)
    assert.deepEqual([status, body.message], [400, message])
  }
  assert.equal((await confirm('+41799999999', '123456')).status, 401)
})

test('SMS sign-in is off by default', async () => {
  const off = await startServer({ on: api })
  for (const line of ['POST /api/auth/sms', 'POST /api/auth/sms/confirm'] as const) {
    const { status, body } = await off.call(line, { json: { phone: '+41791234567', code: '1' } })
    assert.deepEqual([status, body.message], [404, 'SMS authentication is not enabled'])
  }
})
