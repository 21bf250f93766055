import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A port of this machine to which a browser comes back (RFC 8252, section 7.3). */
export type Loopback = {
  readonly port: number
  /** The query of the first callback that is the one; undefined when there was none in time. */
  callback(
    isIt: (query: URLSearchParams) => boolean,
    says: (query: URLSearchParams) => string,
    timeoutMs: number,
  ): Promise<URLSearchParams | undefined>
  close(): void
}

export async function openLoopback(): Promise<Loopback> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    callback: (isIt, says, timeoutMs) =>
      new Promise((resolve) => {
        const timer = setTimeout(() => resolve(undefined), timeoutMs)
        server.on('request', (request, response) => {
          const { pathname, searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1')
          if (pathname !== '/callback' || !isIt(searchParams)) return void response.writeHead(404).end()
          clearTimeout(timer)
          response.writeHead(200, { 'Content-Type': 'text/plain; charset=utf-8', Connection: 'close' })
          response.end(says(searchParams), () => resolve(searchParams))
        })
      }),
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
