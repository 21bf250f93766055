import type { IncomingMessage } from 'node:http'
import { inspect } from 'node:util'
import { type ClientOptions, WebSocket } from 'ws'
import { eventually } from './eventually.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests look into messages freely
type Message = any

/** A WebSocket that tests can talk over, pause and cut. */
export type Talker = {
  ws: WebSocket
  /** All that was said to us. */
  heard: Message[]
  /** Of the answer to the handshake. */
  headers: Record<string, string | string[] | undefined>
  say(message: object | string): void
  /** Says it and resolves with the reply. */
  ask(message: object): Promise<Message>
  events(): Message[]
  lastId(): string
  until(fits: (message: Message) => boolean): Promise<Message>
  /** Resolves with the code of the close. */
  closed(): Promise<number>
  close(): void
}

/** For messages of failed attempts, which are many: what it costs does not grow with what was heard. */
const latest = (heard: readonly Message[]): string => inspect(heard.slice(-10), { maxStringLength: 200 })

type Talking = { token?: string; headers?: Record<string, string>; options?: ClientOptions }

/** Rejects with `refused <status>` when the server does not upgrade. */
export async function talkTo(url: string, { token, headers = {}, options = {} }: Talking = {}): Promise<Talker> {
  const address = new URL('/api/realtime/ws', url.replace(/^http/, 'ws'))
  if (token !== undefined) address.searchParams.set('token', token)
  const ws = new WebSocket(address, { headers, perMessageDeflate: false, ...options })
  const heard: Message[] = []
  let code: number | undefined
  let refs = 0
  ws.on('message', (data) => void heard.push(JSON.parse(data.toString())))
  ws.on('close', (why) => {
    code = why
  })
  const upgraded = new Promise<IncomingMessage>((resolve) => ws.once('upgrade', resolve))
  await new Promise<void>((resolve, reject) => {
    ws.once('open', resolve)
    ws.once('unexpected-response', (_request, response) => {
      let text = ''
      response.on('data', (chunk) => (text += chunk))
      response.on('end', () => reject(new Error(`refused ${response.statusCode} ${text}`)))
    })
    ws.once('error', reject)
  })
  ws.on('error', () => {})
  const until: Talker['until'] = (fits) =>
    eventually(() => {
      const found = heard.find(fits)
      if (found === undefined) throw new Error(`no such message; so far: ${latest(heard)}`)
      return found
    })
  const say = (message: object | string): void =>
    ws.send(typeof message === 'string' ? message : JSON.stringify(message))
  const events = (): Message[] => heard.filter(({ type }) => type === 'event')
  return {
    ws,
    heard,
    headers: (await upgraded).headers,
    say,
    async ask(message) {
      const ref = `r${refs++}`
      const isReply = (one: Message): boolean => one.type === 'reply' && one.ref === ref
      say({ ...message, ref })
      const reply = await eventually(() => {
        const found = heard.find(isReply)
        if (found === undefined && code === undefined) throw new Error(`no reply to ${JSON.stringify(message)}`)
        return found
      })
      if (reply === undefined) throw new Error(`closed with ${code} before the reply`)
      return reply
    },
    events,
    lastId: () => events().at(-1)?.id ?? '',
    until,
    closed: () =>
      eventually(() => {
        if (code === undefined) throw new Error(`still open; so far: ${latest(heard)}`)
        return code
      }),
    close: () => ws.terminate(),
  }
}
