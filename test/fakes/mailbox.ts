import { eventually, heardOn, type TestServer } from '../kit/kit.ts'

type Message = { to: string; subject: string; text: string }

/** What the `log` transports of a server sent, and of all others on its database: they share the queue. */
export function mailbox(server: TestServer) {
  const said = (message: string): Record<string, unknown>[] =>
    heardOn(server)
      .filter((one) => one.message === message)
      .map((one) => ({ ...one.attrs }))
  const mails = (to: string): Message[] => (said('mail') as Message[]).filter((mail) => mail.to === to)
  return {
    mails,
    /** Waits for the given number of mails to an address, of those with a link to `page`, and resolves to the last one's link. */
    async link(to: string, count = 1, page = ''): Promise<URL> {
      const text = await eventually(() => {
        const found = mails(to).filter(({ text }) => text.includes(page))
        if (found.length < count) throw new Error(`${found.length} mails to ${to}, expected ${count}`)
        return found.at(-1)?.text ?? ''
      })
      return new URL(/https?:\/\/[^\s\])>]+token=[\w-]+/.exec(text)?.[0] ?? `no link in: ${text}`)
    },
    async token(to: string, count = 1, page = ''): Promise<string> {
      return (await this.link(to, count, page)).searchParams.get('token') ?? ''
    },
    /** Waits for the given number of mails with a code and resolves to the last one's. */
    async mailedCode(to: string, count = 1): Promise<string> {
      const text = await eventually(() => {
        const found = mails(to).filter(({ subject }) => subject === 'Your verification code')
        if (found.length < count) throw new Error(`${found.length} codes to ${to}, expected ${count}`)
        return found.at(-1)?.text ?? ''
      })
      return /\b\d{6}\b/.exec(text)?.[0] ?? ''
    },
    /** Waits for the given number of text messages to a number and resolves to the last one's code. */
    async code(to: string, count = 1): Promise<string> {
      const body = await eventually(() => {
        const found = said('sms').filter((sms) => sms['to'] === to)
        if (found.length < count) throw new Error(`${found.length} messages to ${to}, expected ${count}`)
        return String(found.at(-1)?.['body'])
      })
      return /\d{4,8}/.exec(body)?.[0] ?? ''
    },
  }
}
