/** A mail as transports receive it. */
type Mail = {
  /** The same on every attempt, so that a receiver can recognise a repeat. */
  id: string
  to: string
  subject: string
  html: string
  text: string
}

/** Sends mail; resolves when the next hop has accepted the message. */
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
