import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { AppError, badRequest } from '../core/errors.ts'
import type { Route } from './route.ts'
import { requestsUpgradedIf } from './wire/node-internals.ts'
import { splitTarget } from './wire/target.ts'

/**
 * Upgrades only WebSocket requests to routes with `upgrade`. Other Upgrade headers are ignored (RFC 9110 §7.8), because
 * some clients offer h2c with each request.
 */
export function requestsUpgradedAt(routes: readonly Route[]): typeof IncomingMessage {
  const paths = new Set(routes.filter(({ upgrade }) => upgrade).map(({ path }) => path))
  const isTaken = ({ method, headers, url = '' }: IncomingMessage): boolean =>
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    paths.has(splitTarget(url).path.replace(/\/$/, ''))
  return requestsUpgradedIf(isTaken)
}

/** A response on a connection that node has detached; the connection ends with it. */
export function lastResponseOn(socket: Socket, request: IncomingMessage): ServerResponse {
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  response.once('finish', () => {
    socket.resume()
    socket.end()
    // Closing at once would reset the connection before the client has read the response.
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
