import type { AddressInfo } from 'node:net'
import { after } from 'node:test'
import { SMTPServer } from 'smtp-server'

/** A mail server on this machine; `listen` may come later than the mails. */
export function mailServer() {
  const inbox: { to: string; text: string }[] = []
  const server = new SMTPServer({
    disableReverseLookup: true,
    closeTimeout: 100, // a kept connection must not hold the test up
    authOptional: true,
    hideSTARTTLS: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, session, done) {
      let raw = ''
      stream.on('data', (chunk) => {
        raw += chunk
      })
      stream.on('end', () => {
        const text = raw
          .replace(/=\r?\n/g, '')
          .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
        inbox.push({ to: session.envelope.rcptTo[0]?.address ?? '', text })
        done()
      })
    },
  })
  server.on('error', () => {})
  after(() => new Promise<void>((resolve) => server.close(() => resolve())))
  return {
    inbox,
    listen: async (port = 0) => {
      await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
      return (server.server.address() as AddressInfo).port
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
