/**
 * All uses of undocumented properties of node:http. Where one is missing, the documented API is used. The tests beside
 * this file fail when one of them changes.
 */
import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'

export const KEEP_ALIVE_SECONDS = 65

/**
 * Writes response heads without `writeHead`, whose checks of names and values are a tenth of the cost of a small response.
 * Only for text of the server itself, never for text from outside.
 */
export class PlainHeads {
  readonly #isSupported: boolean
  #second = 0
  #date = ''

  constructor(isSupported = '_header' in new ServerResponse(new IncomingMessage(new Socket()))) {
    this.#isSupported = isSupported
  }

  /** Whether a head can be set: only on keep-alive connections. */
  accepts(response: ServerResponse): boolean {
    return this.#isSupported && response.shouldKeepAlive
  }

  /**
   * `lines` are whole header lines with line ends. An ASCII `content` is appended to the head, because Node would pass it
   * to the socket as a second chunk, which is slower.
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

/** The response in progress on a connection. */
export const responseOn = (socket: Socket): ServerResponse | undefined =>
  (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined

/**
 * The request class for `createServer`. Node detaches the connection of each request whose `upgrade` is true, and sets
 * that for every upgrade request once the server has an upgrade listener; here it is true only where `isTaken` is.
 */
export function requestsUpgradedIf(isTaken: (request: IncomingMessage) => boolean): typeof IncomingMessage {
  return class Request extends IncomingMessage {
    isUpgradeRequested = false

    get upgrade(): boolean {
      return this.isUpgradeRequested && (this.method === 'CONNECT' || isTaken(this))
    }
    set upgrade(isRequested: boolean) {
      this.isUpgradeRequested = isRequested
    }
  }
}
