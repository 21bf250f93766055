import { request } from 'node:http'
import { PATIENCE_MS } from './eventually.ts'

export type StreamEvent = {
  event: string
  id: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into events freely
  data: any
}

/** A reader of server-sent events that tests can hold, pause and cut. */
export type EventReader = {
  status: number
  headers: Record<string, string | string[] | undefined>
  /** Every event, `connected` included. */
  events: StreamEvent[]
  /** The data of changes alone. */
  changes(): StreamEvent['data'][]
  text(): string
  lastId(): string
  closed: boolean
  pause(): void
  resume(): void
  close(): void
  /** Resolves with the first event that fits, past or future. */
  until(fits: (event: StreamEvent) => boolean): Promise<StreamEvent>
  ended(): Promise<void>
}

export type Listening = {
  /** Default: the changes of tables. */
  path?: string
  token?: string
  headers?: Record<string, string>
  query?: Record<string, string>
}

export async function listenTo(
  url: string,
  { path = '/api/realtime', token, headers = {}, query = {} }: Listening = {},
): Promise<EventReader> {
  const address = new URL(path, url)
  for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value)
  const auth: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
  return new Promise((resolve, reject) => {
    const outgoing = request(address, { headers: { ...auth, ...headers }, agent: false })
    outgoing.on('error', reject)
    outgoing.on('response', (response) => {
      let text = ''
      let rest = ''
      let waiters: (() => void)[] = []
      const wake = (): void => {
        const woken = waiters
        waiters = []
        for (const waiter of woken) waiter()
      }
      const heardMore = (what: string, deadline: number): Promise<void> =>
        new Promise((heard, late) => {
          const fail = (): void => late(new Error(`${what}; so far: ${text.slice(-2_000)}`))
          const timer = setTimeout(fail, deadline - Date.now())
          waiters.push(() => {
            clearTimeout(timer)
            heard()
          })
        })
      const reader: EventReader = {
        status: response.statusCode ?? 0,
        headers: response.headers,
        events: [],
        changes: () => reader.events.filter(({ event }) => event === 'message').map(({ data }) => data),
        text: () => text,
        lastId: () => reader.events.findLast(({ id }) => id !== '')?.id ?? '',
        closed: false,
        pause: () => response.pause(),
        resume: () => response.resume(),
        close: () => outgoing.destroy(),
        async until(fits) {
          const deadline = Date.now() + PATIENCE_MS
          for (;;) {
            const found = reader.events.find(fits)
            if (found) return found
            if (reader.closed) throw new Error(`the stream ended; it said: ${text.slice(-2_000)}`)
            await heardMore('no such event in time', deadline)
          }
        },
        async ended() {
          const deadline = Date.now() + PATIENCE_MS
          while (!reader.closed) await heardMore('the stream did not end in time', deadline)
        },
      }
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text = (text + chunk).slice(-1_000_000)
        rest += chunk
        const blocks = rest.split('\n\n')
        rest = blocks.pop() ?? ''
        for (const block of blocks) parse(block, reader.events)
        wake()
      })
      const close = (): void => {
        reader.closed = true
        wake()
      }
      response.on('close', close).on('error', close)
      resolve(reader)
    })
    outgoing.end()
  })
}

function parse(block: string, events: StreamEvent[]): void {
  const field = (name: string): string[] =>
    block.split('\n').flatMap((line) => (line.startsWith(`${name}: `) ? [line.slice(name.length + 2)] : []))
  const data = field('data')
  if (data.length === 0) return
  events.push({ event: field('event')[0] ?? 'message', id: field('id')[0] ?? '', data: JSON.parse(data.join('\n')) })
}
