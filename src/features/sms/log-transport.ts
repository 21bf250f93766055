import type { Observe } from '../../core/observe.ts'
import type { SmsTransport } from './transport.ts'

/** For development: the message with its code is in the log, and nothing leaves the machine. */
export const logSmsTransport = (observe: Observe): SmsTransport => ({
  async send({ to, body }) {
    observe({ message: 'sms', attrs: { to, body }, verbatim: true })
  },
})
