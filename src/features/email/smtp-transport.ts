import type { Transporter } from 'nodemailer'
import { GiveUp } from '../../db/queue/queue.ts'
import type { MailConfig, MailTransport } from './transport.ts'

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1)$/

export function smtpTransport({ from, from_name, smtp }: MailConfig): MailTransport {
  let transporter: Promise<Transporter> | undefined

  const connect = async (): Promise<Transporter> => {
    const { createTransport } = await import('nodemailer')
    const transporter = createTransport({
      pool: true,
      maxConnections: 4,
      // Covers an idle connection that the server closed; for other failures the queue retries.
      maxRequeues: 1,
      host: smtp.host,
      port: smtp.port,
      secure: smtp.tls === 'tls',
      requireTLS: smtp.tls === 'starttls',
      ignoreTLS: smtp.tls === 'none',
      // A relay on this machine rarely has a certificate for `localhost`, and loopback cannot be intercepted.
      tls: { rejectUnauthorized: !LOOPBACK.test(smtp.host) },
      ...(smtp.username && { auth: { user: smtp.username, pass: smtp.password } }),
      connectionTimeout: 10_000,
      greetingTimeout: 10_000,
      socketTimeout: 30_000,
      disableFileAccess: true,
      disableUrlAccess: true,
    })
    // Errors of idle connections are harmless; sendMail reports failed messages.
    transporter.on('error', () => {})
    return transporter
  }

  return {
    async send({ id, to, subject, html, text }) {
      transporter ??= connect()
      try {
        await (await transporter).sendMail({
          from: { name: from_name, address: from },
          to: { name: '', address: to },
          subject,
          html,
          text,
          messageId: `<${id}@${from.split('@').at(-1)}>`,
          // RFC 3834: suppresses out-of-office replies.
          headers: { 'Auto-Submitted': 'auto-generated' },
        })
      } catch (error) {
        if (isRefusedRecipient(error)) throw new GiveUp('the mail server refuses the recipient', { cause: error })
        throw error
      }
    },
    close() {
      void transporter?.then((open) => open.close())
    },
  }
}

/** RFC 5321, section 4.2.1: 5yz is a permanent failure, 4yz a transient one. */
const isRefusedRecipient = (error: unknown): boolean => {
  const { code, responseCode } = error as { code?: unknown; responseCode?: unknown }
  return code === 'EENVELOPE' && typeof responseCode === 'number' && responseCode >= 500
}
