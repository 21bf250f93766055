import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { messageTest } from '../../../test/kit/messages.ts'
import { SYSTEM } from '../../core/identity.ts'
import { sql } from '../../db/sql.ts'
import { createSms } from './sms.ts'
import type { SmsConfig } from './transport.ts'
import { twilioTransport } from './twilio-transport.ts'

const messages = await messageTest()
const { db, outgoing, observe, observations, gateway } = messages
const allSent = () => messages.allSent()

const base: SmsConfig = {
  sms_provider: 'log',
  sms_daily_limit: 0,
  sms_allowed_countries: [],
  sms_webhook_url: '',
  sms_webhook_secret: '',
  twilio_sid: 'AC1',
  twilio_token: 'tok',
  twilio_from: '+15005550006',
}
function startSms(config: Partial<SmsConfig>) {
  const queue = messages.newQueue()
  const sms = createSms({ queue, outgoing, observe, config: { ...base, ...config } })
  sms.start()
  return { ...sms, stop: () => queue.stop() }
}

test('the log provider shows the code, which is what it is for', async () => {
  const sms = startSms({})
  await db.fly(SYSTEM, sms.queueSms('+4915112345678', 'Your code is 123456'))
  sms.wakeSms()
  await allSent()
  const said = observations.find(({ message }) => message === 'sms')
  assert.deepEqual(said?.attrs, { to: '+4915112345678', body: 'Your code is 123456' })
  await sms.stop()
})

test('the webhook provider gets the message with a signature over the raw body', async () => {
  const { url, received } = await gateway(() => 202)
  const sms = startSms({ sms_provider: 'webhook', sms_webhook_url: `${url}/sms`, sms_webhook_secret: 'hush' })
  await db.fly(SYSTEM, sms.queueSms('+4915112345678', 'Your code is 123456'))
  sms.wakeSms()
  await allSent()
  const [got] = received
  assert.deepEqual(JSON.parse(got?.body ?? ''), { to: '+4915112345678', body: 'Your code is 123456' })
  assert.equal(
    got?.headers['x-svc-signature'],
    createHmac('sha256', 'hush')
      .update(got?.body ?? '')
      .digest('hex'),
  )
  await sms.stop()
})

test('twilio gets a form with basic authentication; a refused number is given up, an outage is not', async () => {
  const answers = [201, 400, 503]
  const { url, received } = await gateway((n) => answers[n - 1] ?? 500)
  const transport = twilioTransport(base, outgoing, url)
  await transport.send({ to: '+4915112345678', body: 'Code 1 & 2' })
  const [got] = received
  assert.equal(got?.path, '/2010-04-01/Accounts/AC1/Messages.json')
  assert.equal(got?.headers.authorization, `Basic ${Buffer.from('AC1:tok').toString('base64')}`)
  assert.deepEqual(Object.fromEntries(new URLSearchParams(got?.body)), {
    To: '+4915112345678',
    From: '+15005550006',
    Body: 'Code 1 & 2',
  })
  await assert.rejects(transport.send({ to: '+1', body: '' }), { message: 'twilio refuses the message' })
  await assert.rejects(transport.send({ to: '+1', body: '' }), { message: 'twilio answered 503' })
})

test('numbers of other countries get nothing, and nobody is told', async () => {
  const sms = startSms({ sms_allowed_countries: ['DE', 'US'] })
  const before = observations.length
  for (const phone of ['+4915112345678', '+12025550123', '+18765550123', '+447400123456', '+88213300000']) {
    await db.fly(SYSTEM, sms.queueSms(phone, 'hi'))
  }
  sms.wakeSms()
  await allSent()
  const to = observations.slice(before).flatMap(({ message, attrs }) => (message === 'sms' ? [attrs?.['to']] : []))
  assert.deepEqual(to.sort(), ['+12025550123', '+4915112345678'])
  await sms.stop()
})

test('no more messages than the daily limit are queued, however many are asked for at once', async () => {
  await db.run(SYSTEM, sql`delete from svc.sms_days`)
  const sms = startSms({ sms_daily_limit: 5 })
  const before = observations.length
  await Promise.all(Array.from({ length: 30 }, (_, n) => db.fly(SYSTEM, sms.queueSms('+4915112345678', `hi ${n}`))))
  sms.wakeSms()
  await allSent()
  assert.equal(observations.slice(before).filter(({ message }) => message === 'sms').length, 5)
  const [day] = await db.rows<{ sent: number }>(SYSTEM, sql`select sent from svc.sms_days`)
  assert.equal(day?.sent, 5)

  // Yesterday's count does not matter today.
  await db.run(SYSTEM, sql`update svc.sms_days set day = day - 1`)
  await db.fly(SYSTEM, sms.queueSms('+4915112345678', 'a new day'))
  sms.wakeSms()
  await allSent()
  assert.ok(observations.some(({ attrs }) => attrs?.['body'] === 'a new day'))
  await sms.stop()
})
