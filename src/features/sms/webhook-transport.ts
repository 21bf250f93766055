import { hmacSha256 } from '../../core/secret.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import type { SmsConfig, SmsTransport } from './transport.ts'

/** POSTs the message to the operator's own gateway; any 2xx is sent. */
export const webhookSmsTransport = (config: SmsConfig, outgoing: Outgoing): SmsTransport => ({
  async send({ to, body: message }) {
    const body = JSON.stringify({ to, body: message })
    const secret = config.sms_webhook_secret
    const { status } = await outgoing.request({
      method: 'POST',
      url: config.sms_webhook_url,
      headers: {
        'content-type': 'application/json',
        ...(secret && { 'x-svc-signature': hmacSha256(secret, body).toString('hex') }),
      },
      body,
      timeoutMs: 10_000,
      maxBytes: 4096,
    })
    if (status < 200 || status > 299) throw new Error(`SMS gateway answered ${status}`)
  },
})
