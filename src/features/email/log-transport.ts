import type { Observe } from '../../core/observe.ts'
import type { MailTransport } from './transport.ts'

/** For development: the message with its link is in the log, and nothing leaves the machine. */
export const logMailTransport = (observe: Observe): MailTransport => ({
  async send({ to, subject, text }) {
    observe({ message: 'mail', attrs: { to, subject, text }, verbatim: true })
  },
  close() {},
})
