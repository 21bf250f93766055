import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { atEnd } from './at-end.ts'

/**
 * What happens to connections, old ones included:
 * `pass` as if it were not there; `refuse` nothing listens; `reset` accepted and cut at once; `blackhole` accepted and
 * never answered; `delayMs` every piece waits that long, each way; `cutAfterBytes` of answer, then cut.
 */
export type Fault = 'pass' | 'refuse' | 'reset' | 'blackhole' | { delayMs: number } | { cutAfterBytes: number }

export type Proxy = {
  port: number
  /** The same database through the proxy. */
  url: string
  set(fault: Fault): Promise<void>
  /** Ends the connections of now with a reset; new ones are served. */
  cut(): void
  readonly connections: number
  close(): Promise<void>
}

/** Stands between a client and the PostgreSQL of a connection string, on TCP or a unix socket, and breaks things. */
export async function startProxy(
  databaseUrl: string,
  /** Is told what clients send. */
  overhear: (client: Socket, chunk: Buffer) => void = () => {},
): Promise<Proxy> {
  const pairs = new Set<[Socket, Socket]>()
  let fault: Fault = 'pass'
  let answered = 0

  const server = createServer((client) => {
    if (fault === 'reset') return void client.resetAndDestroy()
    const upstream = connect(targetOf(databaseUrl))
    const pair: [Socket, Socket] = [client, upstream]
    pairs.add(pair)
    client.on('data', (chunk) => overhear(client, chunk))
    relay(client, upstream, () => true)
    relay(upstream, client, (bytes) => {
      answered += bytes
      return typeof fault !== 'object' || !('cutAfterBytes' in fault) || answered <= fault.cutAfterBytes
    })
    for (const socket of pair) socket.once('close', () => pairs.delete(pair))
  })

  function relay(from: Socket, to: Socket, mayPass: (bytes: number) => boolean): void {
    const reset = () => cutOff([from, to])
    from.on('data', (chunk) => {
      if (!mayPass(chunk.length)) return reset()
      if (typeof fault !== 'object' || !('delayMs' in fault)) return void to.write(chunk)
      // Timers of equal length fire in the order they were set, so bytes keep theirs.
      setTimeout(() => to.write(chunk), fault.delayMs)
    })
    from.on('end', () => to.end())
    from.on('error', reset)
    if (fault === 'blackhole') from.pause()
  }

  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as AddressInfo
  const cut = () => {
    for (const pair of pairs) cutOff(pair)
  }
  const proxy: Proxy = {
    port,
    url: through(databaseUrl, port),
    async set(next) {
      fault = next
      answered = 0
      for (const pair of pairs) for (const socket of pair) next === 'blackhole' ? socket.pause() : socket.resume()
      if (next === 'refuse' || next === 'reset') cut()
      if (next === 'refuse') server.close()
      else if (!server.listening) await listen(port)
    },
    cut,
    get connections() {
      return pairs.size
    },
    async close() {
      cut()
      if (server.listening) await new Promise((resolve) => server.close(resolve))
    },
  }
  atEnd(proxy.close)
  return proxy
}

/** With a reset, as a crashed peer or a firewall does; a unix socket knows none. */
function cutOff(pair: [Socket, Socket]): void {
  for (const socket of pair) socket.remoteAddress ? socket.resetAndDestroy() : socket.destroy()
}

export function targetOf(databaseUrl: string): { path: string } | { host: string; port: number } {
  const url = new URL(databaseUrl)
  const host = url.searchParams.get('host') ?? url.hostname
  const port = Number(url.port || 5432)
  return host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port }
}

function through(databaseUrl: string, port: number): string {
  const url = new URL(databaseUrl)
  url.searchParams.delete('host')
  url.host = `127.0.0.1:${port}`
  return url.href
}
