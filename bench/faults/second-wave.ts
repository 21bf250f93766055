import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { type Attack, again, call, open } from '../../test/abuse/attackers.ts'
import { get, times } from './first-wave.ts'

/** Attackers have a handful of addresses. */
const address = (n: number): string => `10.7.7.${1 + (n % 4)}`
let opened = 0

/** The head of a request whose body comes in pieces of any length. */
const chunkedHead = (path: string, type: string, more = ''): string =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\nX-Forwarded-For: ${address(opened++)}\r\n${more}\r\n`
const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

/** Goes on writing `piece` until the connection ends. */
async function drip(port: number, stop: AbortSignal, begin: string, piece: string, everyMs: number): Promise<void> {
  const socket = open(port, begin)
  while (!socket.destroyed && !socket.readableEnded && !stop.aborted) {
    await sleep(everyMs)
    if (socket.writable) socket.write(chunk(piece))
  }
  socket.destroy()
}

const BOUNDARY = 'storm'
const NESTED =
  '{ authors(limit: 100) { posts(limit: 100) { author { posts(limit: 100) { id body author { name } } } } } }'
const LONG_FILTER = Array.from({ length: 360 }, (_, i) => `author.name~'%${i}%'`).join(' || ')

/** What was found to stop this service when the first wave no longer did. */
export const secondWave = (token: string): Readonly<Record<string, Attack>> => ({
  /** Two imports at a time, a little faster than the least pace that is asked of bodies. */
  slowImports: times(2, ({ port, stop }) =>
    again(stop, 500, () => {
      const rows = `${JSON.stringify({ body: 'x'.repeat(500) })}\n`.repeat(2)
      const begin = chunkedHead('/api/collections/lines/import', 'application/x-ndjson')
      return drip(port, stop, begin, rows, 200)
    }),
  ),
  /** A file of 8 MB three times a second, of which nothing is read. */
  pausedDownloads: ({ port, stop }) =>
    again(stop, 333, () => {
      const from = `X-Forwarded-For: ${address(opened++)}\r\n`
      open(port, get('/api/storage/storm/large.bin', from)).pause()
    }),
  /** Sixty-four uploads that come a byte at a time. */
  drippingUploads: times(64, ({ port, stop }) =>
    again(stop, 1000, () => {
      const type = `multipart/form-data; boundary=${BOUNDARY}`
      const head = chunkedHead('/api/storage/storm', type, `Authorization: Bearer ${token}\r\n`)
      const part = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="${opened}.txt"\r\n\r\n`
      return drip(port, stop, head + chunk(part), 'x', 500)
    }),
  ),
  /** Two lists in lists in lists at a time, by GraphQL and by expand. */
  nestedLists: async (target) => {
    const { port, stop } = target
    await Promise.all([
      again(stop, 500, () => call(port, '/api/graphql', { json: { query: NESTED } })),
      again(stop, 500, () => call(port, '/api/collections/posts?perPage=500&expand=author.posts.author')),
    ])
  },
  /** 360 conditions along a relation, one after the other. */
  longFilters: ({ port, stop }) =>
    again(stop, 1000, () => call(port, `/api/collections/posts?filter=${encodeURIComponent(LONG_FILTER)}`)),
  /** A stream whose own policies take 10 ms a row, and twenty rows a second for it. */
  async slowListener({ port, stop }) {
    const listening = again(stop, 1000, async () => {
      const socket = open(port, get(`/api/realtime?tables=guarded&token=${token}`)).resume()
      await Promise.race([new Promise((resolve) => socket.once('close', resolve)), sleep(20_000)])
      socket.destroy()
    })
    await again(stop, 50, () => call(port, '/api/collections/guarded', { json: { body: 'x' }, token }))
    await listening
  },
  /** Four sockets that say `subscribe` as fast as they are answered, each time from the beginning. */
  resubscribers: times(4, ({ port, stop }) =>
    again(stop, 1000, () => {
      const socket = new WebSocket(`ws://127.0.0.1:${port}/api/realtime/ws?token=${token}`)
      return new Promise<void>((resolve) => {
        let ref = 0
        const subscribe = (): void =>
          socket.send(JSON.stringify({ type: 'subscribe', tables: ['lines'], last_id: '1', ref: String(ref++) }))
        socket.on('open', () => {
          for (let i = 0; i < 16; i++) subscribe()
        })
        socket.on('message', (text) => {
          if (String(text).includes('"type":"reply"') && socket.readyState === socket.OPEN) subscribe()
        })
        socket.on('error', () => resolve())
        socket.on('close', () => resolve())
        stop.addEventListener('abort', () => socket.terminate(), { once: true })
      })
    }),
  ),
  /** Thirty lists of a large bucket at a time, for one object each. */
  bucketLists: times(30, ({ port, stop }) => again(stop, 50, () => call(port, '/api/storage/crowded?limit=1'))),
})
