/** A mail as the gateways see it. */
type Mail = {
  /** The same on every attempt, so that a receiver can tell a repeat. */
  id: string
  to: string
  subject: string
  html: string
  text: string
}

/** One way to send mail; resolves when the next hop has taken the message. Another gateway is one more small file. */
export interface MailTransport {
  send(mail: Mail): Promise<void>
  close(): void
}

export type MailConfig = {
  readonly backend: 'log' | 'smtp' | 'webhook'
  readonly from: string
  readonly from_name: string
  readonly smtp: {
    readonly host: string
    readonly port: number
    readonly username: string
    readonly password: string
    readonly tls: 'starttls' | 'tls' | 'none'
  }
  readonly webhook: { readonly url: string; readonly secret: string /** Seconds. */; readonly timeout: number }
}
