/** A mail as transports receive it. */
export type Mail = {
  /** The same on every attempt, so that a receiver can recognise a repeat. */
  id: string
  to: string
  subject: string
  html: string
  text: string
  template: string
}

/** Sends mail; resolves when the next hop has accepted the message. */
export interface MailTransport {
  send(mail: Mail): Promise<void>
  close(): void
}

/** A transport for what a hook does not send. */
export const behind = (
  hook: ((mail: Mail) => Promise<boolean>) | undefined,
  transport: MailTransport,
): MailTransport =>
  hook
    ? {
        send: async (mail) => {
          if (!(await hook(mail))) await transport.send(mail)
        },
        close: () => transport.close(),
      }
    : transport

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
