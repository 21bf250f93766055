import { randomUUID } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import type { Identity } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Observe } from '../../core/observe.ts'
import { admit, bearerOf } from '../../http/guard.ts'
import { type Call, type Reply, type Route, route } from '../../http/route.ts'
import type { Channels } from './channels/channels.ts'
import type { RealtimeContext } from './context.ts'
import { Conversation } from './conversation.ts'
import type { LiveSessionDeps } from './live/session.ts'

type Deps = RealtimeContext & {
  identify: (bearer: string) => Identity | Promise<Identity>
  /** Throws when the caller has used up the rate limit of requests. */
  countRequest: (who: Identity, ip: string) => Promise<void>
  clock: Clock
  observe: Observe
  channels: Channels
  live: LiveSessionDeps
}

export function socketRoute(deps: Deps): Route {
  const { connections, visitorsMayListen, requires } = deps

  async function open(call: Call): Promise<Reply> {
    // Loaded with the first WebSocket: servers without any do not need the library.
    const { accept, SocketClient } = await import('./deliver/web-socket.ts')
    connections.refuseIfDraining()
    const { who, headers, query } = call
    const isKnown = who.kind !== 'anonymous' || visitorsMayListen
    const release = isKnown ? connections.acquire(who) : undefined
    const connection = call.takeConnection()
    const ws = accept(connection)
    if (!ws) {
      release?.()
      return { status: 499, streaming: true }
    }
    const client = new SocketClient(ws, connection.socket, { ...deps.client, who })
    const countRequest = (who: Identity): Promise<void> => deps.countRequest(who, call.ip)
    const talk = { ...deps, admit: (who: Identity) => admit(socket, who, 'all'), countRequest }
    const id = randomUUID()
    const conversation = new Conversation(client, id, talk, release)
    connection.socket.once('close', () => {
      connections.remove(client)
      conversation.onClose()
    })
    ws.on('message', (data: Buffer, isBinary: boolean) => conversation.onMessage(data, isBinary))
    client.sendMessage({ type: 'connected', client_id: id })
    connections.add(client)
    await connections.endIfRevoked(client, bearerOf(headers['authorization'], query['token'] || undefined))
    return { status: 101, streaming: true }
  }

  const socket = route('GET /api/realtime/ws', {
    summary: 'Changes as they are committed, over a WebSocket',
    auth: 'optional',
    leastRole: 'viewer',
    access: 'read',
    impersonable: true,
    // A caller that sends no token with the handshake sends it as a message.
    openToVisitors: true,
    tokenInQuery: true,
    upgrade: true,
    limit: 'api',
    requires,
    query: { token: t.string({ description: 'the bearer, for clients that cannot send headers' }) },
    answers: { 101: null },
    handle: open,
  })
  return socket
}
