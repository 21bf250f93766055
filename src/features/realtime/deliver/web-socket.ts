import type { Socket } from 'node:net'
import { WebSocket, WebSocketServer } from 'ws'
import type { AppError } from '../../../core/errors.ts'
import type { UpgradedConnection } from '../../../http/route.ts'
import { type ClientOptions, type Listener, RealtimeClient } from './client.ts'
import { CLOSE, MESSAGES, messageFrame, messagesNamed, PING_FRAME, pongFrame } from './messages.ts'

/** How long a client may take to read what was sent last and to close. */
const CLOSE_GRACE_MS = 5_000

// Without compression, which would hold hundreds of kilobytes for each connection. Pings are answered by hand, within the
// bounds of everything that is sent.
const server = new WebSocketServer({
  noServer: true,
  clientTracking: false,
  perMessageDeflate: false,
  autoPong: false,
  maxPayload: 64 * 1024,
  maxFragments: 1024,
})

/** Finishes the opening handshake; undefined when the client is gone. */
export function accept({ request, socket, head, headers }: UpgradedConnection): WebSocket | undefined {
  let opened: WebSocket | undefined
  const addHeaders = (lines: string[]): void => {
    for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
  }
  socket.setTimeout(0)
  socket.setNoDelay(true)
  server.once('headers', addHeaders)
  server.handleUpgrade(request, socket, head, (ws) => {
    opened = ws
  })
  server.off('headers', addHeaders)
  return opened
}

/** A client on a WebSocket. Frames that are made once for all clients are written to its socket as they are. */
export class SocketClient extends RealtimeClient {
  readonly #ws: WebSocket
  readonly #socket: Socket
  #isAlive = true

  constructor(ws: WebSocket, socket: Socket, options: ClientOptions) {
    super(socket, MESSAGES, options)
    this.#ws = ws
    this.#socket = socket
    ws.on('ping', (content: Buffer) => this.write(pongFrame(content)))
    ws.on('pong', () => this.markAlive())
    // The library closes with the code of what the client did wrong: 1002, 1007, 1009.
    ws.on('error', () => this.#closeInTime())
  }

  override get via(): 'websocket' {
    return 'websocket'
  }

  override get closed(): boolean {
    return this.#ws.readyState !== WebSocket.OPEN || this.#socket.destroyed
  }

  sendMessage(message: object): void {
    this.write(messageFrame(message))
  }

  /** This client as the listener of one of several subscriptions, each of whose messages has its name. */
  named(sub: string): Listener {
    const client = this
    const format = messagesNamed(sub)
    return {
      get closed() {
        return client.closed
      },
      deliver: (changes) => client.send(changes.as(format.change)),
      reset: (position) => client.send(format.reset(position)),
      drained: () => client.drained(),
      drop: () => client.drop(),
      fail: (error) => client.fail(error),
    }
  }

  markAlive(): void {
    this.#isAlive = true
  }

  /** A peer that vanished without closing is recognised by its silence. */
  override beat(): void {
    if (this.closed) return
    if (!this.#isAlive) return void this.#socket.destroy()
    this.#isAlive = false
    this.write(PING_FRAME)
  }

  override drop(): void {
    this.end(CLOSE.tooSlow, 'too far behind, resume by last_id')
  }

  override fail(error: AppError): void {
    this.sendMessage({ type: 'error', ...error.toJSON() })
    this.end(4000 + error.status, error.message)
  }

  override leave(): void {
    this.end(CLOSE.restart, 'server is shutting down')
  }

  end(code: number, reason: string): void {
    if (this.closed) return
    this.#ws.close(code, reason)
    this.#closeInTime()
  }

  /** Stops reading while messages arrive faster than they are answered. */
  setPaused(isPaused: boolean): void {
    if (isPaused) this.#ws.pause()
    else this.#ws.resume()
  }

  #closeInTime(): void {
    // Its own closing frame has to be read.
    this.#ws.resume()
    const timer = setTimeout(() => this.#socket.destroy(), CLOSE_GRACE_MS)
    this.#socket.once('close', () => clearTimeout(timer))
  }
}
