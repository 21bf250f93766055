import { hmacSha256 } from '../../core/secret.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import type { MailConfig, MailTransport } from './transport.ts'

/** POSTs the message to the operator's own gateway; any 2xx is sent. */
export const webhookMailTransport = (config: MailConfig, outgoing: Outgoing): MailTransport => ({
  async send({ id, to, subject, html, text }) {
    const { url, secret, timeout } = config.webhook
    const body = JSON.stringify({ to, subject, html, text, ...(config.from && { from: config.from }) })
    const { status } = await outgoing.request({
      method: 'POST',
      url,
      headers: {
        'content-type': 'application/json',
        'idempotency-key': id,
        ...(secret && { 'x-svc-signature': hmacSha256(secret, body).toString('hex') }),
      },
      body,
      timeoutMs: timeout * 1000,
      maxBytes: 4096,
    })
    if (status < 200 || status > 299) throw new Error(`mail gateway answered ${status}`)
  },
  close() {},
})
