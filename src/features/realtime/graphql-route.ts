import { AppError, notFound } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import { KeyedLimit } from '../../core/limits.ts'
import { admit, bearerOf } from '../../http/guard.ts'
import { type Call, type Reply, type Route, route } from '../../http/route.ts'
import { addressSubject } from '../../http/wire/client-address.ts'
import type { RealtimeContext } from './context.ts'
import { GraphqlConversation, type GraphqlConversationDeps } from './graphql-conversation.ts'

type Deps = RealtimeContext &
  Omit<GraphqlConversationDeps, 'admit' | 'countRequest'> & {
    countRequest: (who: Identity, ip: string) => Promise<void>
  }

const PROTOCOL = 'graphql-transport-ws'
/** Sockets of an address that have not said who they are. */
const MAX_WITHOUT_INIT = 10

export function graphqlRoute(deps: Deps): Route {
  const { connections, graphql, requires } = deps
  const requireGraphql = (): void => {
    if (!graphql.isEnabled) throw notFound('GraphQL is not enabled', 'feature_disabled')
  }
  const addresses = new KeyedLimit({ perKey: MAX_WITHOUT_INIT })

  async function open(call: Call): Promise<Reply> {
    // Loaded with the first WebSocket: servers without any do not need the library.
    const { accept } = await import('./deliver/web-socket.ts')
    const { GraphqlClient } = await import('./deliver/graphql-client.ts')
    connections.refuseIfDraining()
    const { who, headers } = call
    const releaseAddress = addresses.tryAcquire(addressSubject(call.ip))
    if (!releaseAddress)
      throw new AppError('connection_limit', 'connection limit exceeded', { headers: { 'Retry-After': '3' } })
    const connection = call.takeConnection()
    const ws = accept(connection)
    if (!ws) {
      releaseAddress()
      return { status: 499, streaming: true }
    }
    const client = new GraphqlClient(ws, connection.socket, { ...deps.client, who })
    const conversation = new GraphqlConversation(
      client,
      {
        ...deps,
        admit: (who) => admit(socket, who, 'all'),
        countRequest: (who) => deps.countRequest(who, call.ip),
      },
      releaseAddress,
    )
    connection.socket.once('close', () => {
      connections.remove(client)
      conversation.onClose()
    })
    ws.on('message', (data: Buffer, isBinary: boolean) => conversation.onMessage(data, isBinary))
    connections.add(client)
    if (ws.protocol !== PROTOCOL) client.end(4406, 'Subprotocol not acceptable')
    await connections.endIfRevoked(client, bearerOf(headers['authorization']))
    return { status: 101, streaming: true }
  }

  const socket = route('GET /api/graphql', {
    summary: 'Subscriptions, queries and mutations over a WebSocket (`graphql-transport-ws`)',
    auth: 'optional',
    access: 'read',
    // A caller that sends no token with the handshake sends it with connection_init.
    openToVisitors: true,
    upgrade: true,
    limit: 'api',
    requires: () => {
      requireGraphql()
      requires()
    },
    otherwise: () => {
      requireGraphql()
      throw new AppError('method_not_allowed', 'method not allowed', { headers: { Allow: 'POST' } })
    },
    answers: { 101: null },
    handle: open,
  })
  return socket
}
