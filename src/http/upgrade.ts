import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { AppError, badRequest } from '../core/errors.ts'
import type { Route } from './route.ts'
import { requestsUpgradedIf } from './wire/node-internals.ts'
import { splitTarget } from './wire/target.ts'

/**
 * A server may ignore the header Upgrade (RFC 9110 §7.8), and clients that offer h2c with each request rely on that: only
 * requests for a WebSocket at a path that has one are upgraded.
 */
export function requestsUpgradedAt(routes: readonly Route[]): typeof IncomingMessage {
  const paths = new Set(routes.filter(({ upgrade }) => upgrade).map(({ path }) => path))
  const isTaken = ({ method, headers, url = '' }: IncomingMessage): boolean =>
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    paths.has(splitTarget(url).path.replace(/\/$/, ''))
  return requestsUpgradedIf(isTaken)
}

/** For an answer to a request whose connection node has let go of; the connection ends with it. */
export function lastResponseOn(socket: Socket, request: IncomingMessage): ServerResponse {
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  response.once('finish', () => {
    socket.resume()
    socket.end()
    // Closing at once would reset the connection under the answer while the client still sends.
    setTimeout(() => socket.destroy(), 1000).unref()
  })
  return response
}

const KEY = /^[+/0-9A-Za-z]{22}==$/

/** Throws unless this is the opening handshake of a WebSocket (RFC 6455 §4.2.1). */
export function requireHandshake({ headers }: IncomingMessage, isUpgrade: boolean): void {
  if (!isUpgrade) throw upgradeRequired('websocket upgrade required')
  if (headers['sec-websocket-version'] !== '13') throw upgradeRequired('unsupported websocket version')
  if (!KEY.test(headers['sec-websocket-key'] ?? '')) throw badRequest('invalid websocket key', 'bad_request')
}

const upgradeRequired = (message: string): AppError =>
  new AppError('upgrade_required', message, {
    headers: { Upgrade: 'websocket', Connection: 'Upgrade', 'Sec-WebSocket-Version': '13' },
  })
