import { GiveUp } from '../../db/queue/queue.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import type { SmsConfig, SmsTransport } from './transport.ts'

const API = 'https://api.twilio.com'

/** Twilio's Messages resource; tests pass another `api`. */
export const twilioTransport = (config: SmsConfig, outgoing: Outgoing, api = API): SmsTransport => ({
  async send({ to, body }) {
    const { twilio_sid: sid, twilio_token: token, twilio_from: from } = config
    const sender = from.startsWith('MG') ? { MessagingServiceSid: from } : { From: from }
    const answer = await outgoing.request({
      method: 'POST',
      url: `${api}/2010-04-01/Accounts/${encodeURIComponent(sid)}/Messages.json`,
      headers: {
        authorization: `Basic ${Buffer.from(`${sid}:${token}`).toString('base64')}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams({ To: to, ...sender, Body: body }).toString(),
      timeoutMs: 10_000,
      maxBytes: 4096,
    })
    if (answer.status >= 200 && answer.status <= 299) return
    // 400 is permanent for this number or message; 401, 429 and 5xx are retried.
    if (answer.status === 400) throw new GiveUp('twilio refuses the message')
    throw new Error(`twilio answered ${answer.status}`)
  },
})
