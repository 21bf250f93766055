import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** Runs against a server until told to stop; what it suffers is its own business. */
export type Attack = (target: { port: number; stop: AbortSignal }) => Promise<void>

const junk = 'x'.repeat(900_000)

const sockets = new Set<Socket>()

/** Ends every connection that an attack left open. */
export function endConnections(): void {
  for (const socket of sockets) socket.destroy()
}

/** How often each status was answered, as far as anything was read. */
export const statuses = new Map<number, number>()
const count = (status: number): void => void statuses.set(status, (statuses.get(status) ?? 0) + 1)

export function open(port: number, text: string | Buffer): Socket {
  const socket = connect(port, '127.0.0.1')
  socket.once('data', (chunk) => count(Number(/^HTTP\/1\.1 (\d{3})/.exec(chunk.toString('latin1'))?.[1] ?? 0)))
  socket.on('error', () => undefined)
  sockets.add(socket.on('close', () => sockets.delete(socket)))
  socket.write(text)
  return socket
}

export async function again(stop: AbortSignal, pauseMs: number, once: () => Promise<unknown> | unknown): Promise<void> {
  while (!stop.aborted) {
    await Promise.resolve(once()).catch(() => undefined)
    await sleep(pauseMs)
  }
}

const agent = new Agent({ keepAlive: true, maxSockets: 200 })

/** One call from an address of the attacker's choice, its answer thrown away. */
export function call(
  port: number,
  path: string,
  { json, from, token }: { json?: unknown; from?: string; token?: string } = {},
): Promise<number> {
  return new Promise((resolve, reject) => {
    const body = json === undefined ? undefined : JSON.stringify(json)
    const headers = {
      ...(body !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
      ...(from !== undefined && { 'x-forwarded-for': from }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    }
    const asked = request({
      port,
      host: '127.0.0.1',
      path,
      method: body === undefined ? 'GET' : 'POST',
      headers,
      agent,
    })
    asked.on('response', (answer) => {
      count(answer.statusCode ?? 0)
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0))
      answer.on('error', reject)
    })
    asked.on('error', reject)
    asked.end(body)
  })
}

const anyAddress = (): string => `10.${1 + Math.floor(Math.random() * 250)}.${Math.floor(Math.random() * 250)}.9`

/** Named for what they do; `list` is a path whose answer is large. */
export const attacks = (list: string): Readonly<Record<string, Attack>> => ({
  async slowSenders({ port, stop }) {
    const head = `POST /api/collections/notes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n`
    await again(stop, 50, () => void open(port, `${head}"${junk}`))
  },
  async drippers({ port, stop }) {
    const sockets = Array.from({ length: 50 }, () =>
      open(
        port,
        'POST /api/rpc/x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n"',
      ),
    )
    await again(stop, 100, () => {
      for (const socket of sockets) socket.write('x')
    })
  },
  async slowImports({ port, stop }) {
    const head =
      'POST /api/collections/notes/import HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nContent-Length: 90000000\r\n\r\n'
    await again(stop, 50, () => void open(port, `${head}v\nx\n`))
  },
  async halfHeaders({ port, stop }) {
    await again(stop, 50, () => void open(port, 'GET /health HTTP/1.1\r\nHost: x\r\nX-A: '))
  },
  async pausedReaders({ port, stop }) {
    await again(stop, 2000, () => void open(port, `GET ${list} HTTP/1.1\r\nHost: x\r\n\r\n`).pause())
  },
  async pipelined({ port, stop }) {
    const many = `GET ${list} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(10)
    await again(stop, 5000, () => void open(port, many).pause())
  },
  async leavers({ port, stop }) {
    await again(stop, 500, async () => {
      const socket = open(port, `GET ${list} HTTP/1.1\r\nHost: x\r\n\r\n`)
      await sleep(15)
      socket.destroy()
    })
  },
  async garbage({ port, stop }) {
    const lines = [
      '\0\0\0\r\n\r\n',
      'GET / HTTP/9\r\n\r\n',
      `GET /${'a'.repeat(70_000)} HTTP/1.1\r\n\r\n`,
      'PRI * HTTP/2.0\r\n\r\n',
    ]
    await again(stop, 20, () => void open(port, lines[Math.floor(Math.random() * lines.length)] ?? ''))
  },
  async deepJson({ port, stop }) {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    const head = `POST /api/collections/notes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${deep.length}\r\n\r\n`
    await again(stop, 50, () => void open(port, head + deep))
  },
  async guessers({ port, stop }) {
    await again(stop, 30, () =>
      call(port, '/api/auth/login', {
        json: { email: 'ana@x.test', password: `guess ${Math.random()}` },
        from: anyAddress(),
      }),
    )
  },
  async registrars({ port, stop }) {
    await again(stop, 30, () =>
      call(port, '/api/auth/register', {
        json: { email: `${Math.random()}@x.test`, password: junk.slice(0, 1000) },
        from: anyAddress(),
      }),
    )
  },
  async resetters({ port, stop }) {
    await again(stop, 30, () =>
      call(port, '/api/auth/password-reset', { json: { email: 'ana@x.test' }, from: anyAddress() }),
    )
  },
  async strangers({ port, stop }) {
    await again(stop, 5, () => call(port, `/api/${Math.random()}?jwt=${junk.slice(0, 5000)}`))
  },
  async longFilters({ port, stop }) {
    const filter = encodeURIComponent(Array.from({ length: 300 }, (_, i) => `v~'%${i}%'`).join(' OR '))
    await again(stop, 100, () => call(port, `/api/collections/notes?filter=${filter}`))
  },
})
