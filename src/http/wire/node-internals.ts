/**
 * Everything that reaches into properties of node:http that are not documented. They are as old as Node; where one is
 * missing, the documented way is taken. The tests beside this file fail when one of them changes.
 */
import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'

export const KEEP_ALIVE_SECONDS = 65

/**
 * Heads of answers, made of text that the server wrote itself: `writeHead` checks every name and value, which is a tenth
 * of a small answer's cost. Never for text that comes from outside.
 */
export class PlainHeads {
  readonly #isSupported: boolean
  #second = 0
  #date = ''

  constructor(isSupported = '_header' in new ServerResponse(new IncomingMessage(new Socket()))) {
    this.#isSupported = isSupported
  }

  /** Only on a connection that stays open. */
  accepts(response: ServerResponse): boolean {
    return this.#isSupported && response.shouldKeepAlive
  }

  /**
   * `lines` are whole header lines, each with its line end. An answer in ASCII may follow at once: Node would hand it to
   * the socket as a second piece, which makes of one write a gathered one.
   */
  set(response: ServerResponse & { _header?: string | null }, status: number, lines: string, content: string): void {
    response.statusCode = status
    response._header = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines}Date: ${this.#now()}\r\nConnection: keep-alive\r\nKeep-Alive: timeout=${KEEP_ALIVE_SECONDS}\r\n\r\n${content}`
  }

  #now(): string {
    const second = Math.floor(Date.now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#date = new Date(second * 1000).toUTCString()
    }
    return this.#date
  }
}

/** The answer that is under way on a connection. */
export const responseOn = (socket: Socket): ServerResponse | undefined =>
  (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined

/**
 * Requests for `createServer`. Node lets go of the connection of each request whose `upgrade` is true, and sets that for
 * any upgrade as soon as the server listens for one; here it stays true only where `isTaken` says so.
 */
export function requestsUpgradedIf(isTaken: (request: IncomingMessage) => boolean): typeof IncomingMessage {
  return class Request extends IncomingMessage {
    isUpgradeRequested = false

    get upgrade(): boolean {
      return this.isUpgradeRequested && (this.method === 'CONNECT' || isTaken(this))
    }
    set upgrade(asked: boolean) {
      this.isUpgradeRequested = asked
    }
  }
}
