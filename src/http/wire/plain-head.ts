import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'

/**
 * A head made of text we wrote ourselves needs none of the checks `writeHead` makes on every name and value, and they
 * are a tenth of a small answer's cost. The property is not documented but as old as node; where it is missing,
 * writeHead does the work. Never use it for text that comes from outside.
 */
type WithHead = ServerResponse & { _header?: string | null }

const isKnownHere = '_header' in new ServerResponse(new IncomingMessage(new Socket()))

/** Whether the answer may have a head written as text: a connection that stays, and nothing set by a handler. */
export const takesPlainHead = (response: ServerResponse): boolean => isKnownHere && response.shouldKeepAlive

export const KEEP_ALIVE_SECONDS = 65

let dateSecond = 0
let dateText = ''

function httpDate(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateText = new Date(second * 1000).toUTCString()
  }
  return dateText
}

/**
 * `lines` are whole header lines, each with its line end. An answer in ASCII may follow at once: node would hand it to the
 * socket as a second piece, which makes of one write a gathered one.
 */
export function setPlainHead(response: WithHead, status: number, lines: string, content: string): void {
  response.statusCode = status
  response._header = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines}Date: ${httpDate()}\r\nConnection: keep-alive\r\nKeep-Alive: timeout=${KEEP_ALIVE_SECONDS}\r\n\r\n${content}`
}
