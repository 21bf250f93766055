import { setTimeout as sleep } from 'node:timers/promises'
import { type Attack, again, attacks, call, open } from '../../test/abuse/attackers.ts'

export const times = (count: number, attack: Attack): Attack => {
  return async (target) => void (await Promise.all(Array.from({ length: count }, () => attack(target))))
}
export const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`
/** Filters of different statements, true of every row. */
const anyShape = (): string => {
  const tests = ["label~'note%'", 'id>0', 'id<1000', "label!='x'", 'id!=0', "label>'a'", "label<'z'", 'id>=1']
  return encodeURIComponent(tests.filter(() => Math.random() < 0.5).join(' AND ') || 'id>0')
}
const LARGE = '/api/collections/large?perPage=10'

/** What was known to stop a service first. `token` is that of an ordinary account. */
export const firstWave = (token: string): Readonly<Record<string, Attack>> => ({
  /** 20 lists of 16 s at a time, half of them in shapes of their own. */
  slowLists: times(20, ({ port, stop }) =>
    again(stop, 200, () => call(port, `/api/collections/heavy${Math.random() < 0.5 ? '' : `?filter=${anyShape()}`}`)),
  ),
  /** 20 functions of 5 s at a time, most of them left after a second. */
  abandonedCalls: times(20, ({ port, stop }) =>
    again(stop, 100, async () => {
      const body = '{"seconds":5}'
      const head = `POST /api/rpc/slow HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
      const socket = open(port, `${head}\r\n\r\n${body}`)
      await sleep(2000 * Math.random())
      socket.destroy()
    }),
  ),
  /** Bodies of 1 MB of which 900 kB come, ten a second. */
  slowSenders: ({ port, stop }) => {
    const head =
      'POST /api/collections/notes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000'
    const part = `${head}\r\n\r\n"${'x'.repeat(900_000)}`
    return again(stop, 100, () => void open(port, part))
  },
  /** An answer of 9 MB every three seconds, of which nothing is read. */
  pausedReaders: ({ port, stop }) => again(stop, 3000, () => void open(port, get(LARGE)).pause()),
  /** A small column of 20 rows of 900 kB every five seconds, with a stream that listens. */
  async largeRows({ port, stop }) {
    const listen = () => open(port, get(`/api/realtime?tables=large&token=${token}`)).resume()
    const operations = Array.from({ length: 20 }, (_, i) => ({ method: 'update', id: i + 1, body: { n: i } }))
    await again(stop, 5000, async () => {
      const stream = listen()
      await call(port, '/api/collections/large/batch', { json: { operations } })
      await sleep(1000)
      stream.destroy()
    })
  },
  /** Four streams with an expensive filter, opened again as soon as they are cut off, and a long text each second. */
  async dearFilters({ port, stop }) {
    const dear = (n: number) => encodeURIComponent(`body~'%${'a'.repeat(4_000)}${n}%'`)
    const streams = Promise.all(
      [1, 2, 3, 4].map((n) =>
        again(stop, 1000, async () => {
          const socket = open(port, get(`/api/realtime?tables=lines&token=${token}&filter=${dear(n)}`)).resume()
          await Promise.race([new Promise((resolve) => socket.once('close', resolve)), sleep(10_000)])
          socket.destroy()
        }),
      ),
    )
    await again(stop, 1000, () => call(port, '/api/collections/lines', { json: { body: 'a'.repeat(100_000) } }))
    await streams
  },
  /** Four wrong passwords a second for one account, each from another address. */
  guessers: ({ port, stop }) =>
    again(stop, 250, () =>
      call(port, '/api/auth/login', {
        json: { email: 'ordinary0@x.test', password: `guess ${Math.random()}` },
        from: `10.${Math.floor(Math.random() * 250)}.${Math.floor(Math.random() * 250)}.9`,
      }),
    ),
  /** Fifty bodies that come a byte at a time. */
  drippers: attacks(LARGE)['drippers'] as Attack,
  /** Twenty connections a second that never end their headers. */
  halfHeaders: attacks(LARGE)['halfHeaders'] as Attack,
})
