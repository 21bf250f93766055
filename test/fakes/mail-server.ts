import type { AddressInfo, Socket } from 'node:net'
import { after } from 'node:test'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'

/** `text` is as the reader sees it, with headers and both parts. */
export type ReceivedMail = { to: string; text: string; encrypted: boolean; user: string | undefined }

/** One that offers STARTTLS, as most do. */
export const WITH_STARTTLS: SMTPServerOptions = { hideSTARTTLS: false, disabledCommands: [] }

/** A mail server on this machine; `listen` may come later than the mails. The password is `right`. */
export function mailServer(options: SMTPServerOptions = {}) {
  const inbox: ReceivedMail[] = []
  const sockets = new Set<Socket>()
  const server = new SMTPServer({
    disableReverseLookup: true,
    closeTimeout: 100, // a kept connection must not hold the test up
    authOptional: true,
    hideSTARTTLS: true,
    disabledCommands: ['STARTTLS'],
    onAuth: ({ username, password }, _session, done) =>
      password === 'right' ? done(null, { user: username }) : done(new Error('wrong password')),
    onData(stream, session, done) {
      let raw = ''
      stream.on('data', (chunk) => {
        raw += chunk
      })
      stream.on('end', () => {
        const text = raw
          .replace(/=\r?\n/g, '')
          .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
        const to = session.envelope.rcptTo.map(({ address }) => address).join(', ')
        inbox.push({ to, text, encrypted: session.secure, user: session.user as string | undefined })
        done()
      })
    },
    ...options,
  })
  server.on('error', () => {})
  server.server.on('connection', (socket) => sockets.add(socket))
  after(() => new Promise<void>((resolve) => server.close(() => resolve())))
  return {
    inbox,
    listen: async (port = 0) => {
      await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
      return (server.server.address() as AddressInfo).port
    },
    /** Hangs up on everybody. */
    cut: () => {
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** The configuration of a server that sends its mails there. */
export const smtp = (port: number) => ({
  'email.backend': 'smtp',
  'email.from': 'robot@shop.test',
  'email.smtp.host': '127.0.0.1',
  'email.smtp.port': port,
  'email.smtp.tls': 'none',
})
