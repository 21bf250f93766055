import type { ServerResponse } from 'node:http'

/** An open stream of Server-Sent Events. Writing never waits: whoever writes looks at `bufferedBytes` and decides. */
export type EventStream = {
  /** Complete frames, each ending in an empty line. */
  write(frame: string | Buffer): void
  /** What the client has not taken yet. */
  readonly bufferedBytes: number
  readonly closed: boolean
  /** Ends the stream after what was written; `now` throws that away, for clients that do not read. */
  close(how?: 'now'): void
  /** Runs once, whoever ended it; at once when it has ended already. */
  onClose(fn: () => void): void
}

const HEADERS = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-store',
  // Proxies of the nginx kind would hold events back.
  'X-Accel-Buffering': 'no',
}

/** All frames of one turn of the event loop leave in one write, which is what makes fan-out to thousands affordable. */
export function openEventStream(response: ServerResponse, headers: Readonly<Record<string, string>> = {}): EventStream {
  let pending: Buffer[] = []
  let pendingBytes = 0
  let ending = false

  // Without chunks the body ends with the connection (RFC 9112 §6.3), and every event is the bytes of its frame.
  response.removeHeader('Transfer-Encoding')
  response.writeHead(200, { ...HEADERS, ...headers, Connection: 'close' })
  response.flushHeaders()
  response.socket?.setNoDelay(true)
  response.on('error', () => response.destroy())

  const flush = (): void => {
    if (pendingBytes === 0) return
    const [first] = pending
    const bytes = pending.length === 1 && first ? first : Buffer.concat(pending, pendingBytes)
    pending = []
    pendingBytes = 0
    if (!response.destroyed) response.write(bytes)
  }

  return {
    write(frame) {
      if (ending || response.destroyed) return
      const bytes = typeof frame === 'string' ? Buffer.from(frame) : frame
      if (pendingBytes === 0) setImmediate(flush)
      pending.push(bytes)
      pendingBytes += bytes.length
    },
    get bufferedBytes() {
      return pendingBytes + response.writableLength
    },
    get closed() {
      return ending || response.destroyed
    },
    close(how) {
      if (how === 'now') {
        ending = true
        response.destroy()
        return
      }
      if (ending) return
      flush()
      ending = true
      response.end()
    },
    onClose(fn) {
      if (response.closed || response.destroyed) fn()
      else response.once('close', fn)
    },
  }
}
