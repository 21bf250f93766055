import { randomUUID } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import { AppError, notFound, unauthorized, unavailable } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Metrics } from '../../core/metrics.ts'
import type { Observe } from '../../core/observe.ts'
import type { ChangeLog, Position } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import { findTable, lookOnce } from '../../db/schema/lookup.ts'
import type { Schema, SchemaCache } from '../../db/schema/snapshot.ts'
import { admit, bearerOf } from '../../http/guard.ts'
import { type Call, type Reply, type Route, route } from '../../http/route.ts'
import { Connections, EXPIRED } from './connections.ts'
import { connectedFrame } from './frames.ts'
import { Hub } from './hub.ts'
import { Stream } from './stream.ts'
import type { Subscriber } from './subscriber.ts'
import { type Asked, interestOf, keyOf, wantedBy } from './visibility/interest.ts'
import { Conversation } from './websocket/conversation.ts'

export type RealtimeConfig = {
  enabled: boolean
  max_connections_per_user: number
  heartbeat_interval: number
  buffer_size: number
}

type Deps = {
  db: Db
  schema: SchemaCache
  log: ChangeLog
  config: RealtimeConfig
  /** `events.retention` */
  retentionSeconds: number
  /** Whether callers without a token may listen. */
  visitorsMayListen: boolean
  identify: (bearer: string) => Identity | Promise<Identity>
  onRevoked: (heard: (ends: (who: Identity) => boolean) => void) => void
  clock: Clock
  observe: Observe
  metrics: Metrics
  /** A connection of theirs counts as open until the answer is called. */
  opened: (who: Identity) => () => void
}

export type Realtime = {
  routes: Route[]
  stats(): { realtime_connections: number }
  start(): void
  /** Ends the connections; their clients come back to another process. */
  drain(): void
  stop(): Promise<void>
}

const LOOK_AGAIN_MS = 1_000
const HEADERS = { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache', 'X-Accel-Buffering': 'no' }

export function createRealtime(deps: Deps): Realtime {
  const { db, schema, config, identify } = deps
  const hub = new Hub({ db, log: deps.log, schemaWith, observe: deps.observe })
  const connections = new Connections({
    clock: deps.clock,
    heartbeatSeconds: config.heartbeat_interval,
    maxPerOwner: config.max_connections_per_user,
    opened: deps.opened,
    worthSaying,
  })
  const lookup = {
    db,
    schema: () => schema.read(),
    findTable: async (name: string) => findTable(await schemaWith([name]), name),
  }
  const missedAt = new Map<string, number>()
  let draining = false

  deps.metrics.gauge('svc_realtime_connections', 'Open realtime streams.', [], () => connections.size)
  deps.onRevoked((ends) => connections.endThose(ends))

  /** A client whose tables are quiet would otherwise hold an id that is about to be trimmed. */
  function worthSaying(subscriber: Subscriber): Position | undefined {
    const isOld = Date.now() - subscriber.lastIdAt > deps.retentionSeconds * 250
    return isOld ? hub.settledFor(subscriber) : undefined
  }

  /** A table the snapshot does not know may be a moment old; one that was looked for just now is not. */
  async function schemaWith(names: readonly string[]): Promise<Schema> {
    const now = performance.now()
    const isNews = (name: string) => now - (missedAt.get(name) ?? Number.NEGATIVE_INFINITY) >= LOOK_AGAIN_MS
    const knowing = await lookOnce(schema, (snapshot) => {
      const missed = names.filter((name) => !findTable(snapshot, name) && isNews(name))
      if (missed.length === 0) return snapshot
      if (missedAt.size > 1_000) missedAt.clear()
      for (const name of missed) missedAt.set(name, now)
      return undefined
    })
    return knowing ?? schema.read()
  }

  async function startAt(asked: string | undefined): Promise<{ from: Position; isReset: boolean }> {
    const present = await hub.position()
    if (asked === undefined) return { from: present, isReset: false }
    if (await hub.isKnown(asked)) return { from: asked, isReset: false }
    return { from: await hub.position(), isReset: true }
  }

  const refuseWhileDraining = (): void => {
    if (draining) throw unavailable('server is shutting down')
  }

  async function open(call: Call): Promise<Reply> {
    refuseWhileDraining()
    const { who, query } = call
    if (who.kind === 'anonymous' && !deps.visitorsMayListen) throw unauthorized('authentication required')
    const asked = { tables: namesIn(query['tables']), filter: query['filter'] }
    const interest = interestOf(who, await wantedBy(who, asked, lookup))
    hub.requireBudget(interest)
    if (call.raw.request.method === 'HEAD') return { status: 200, headers: HEADERS }
    const leaveSeat = connections.takeSeat(who)
    try {
      const { from, isReset } = await startAt(positionAskedFor(call))
      refuseWhileDraining()
      const { response } = call.raw
      const stream = new Stream(interest, response, config.buffer_size)
      response.once('close', () => {
        connections.remove(stream)
        hub.remove(stream)
        leaveSeat()
      })
      begin(call, from)
      if (isReset) stream.reset(from)
      connections.add(stream)
      hub.add(stream, from)
      if (response.destroyed) {
        connections.remove(stream)
        hub.remove(stream)
      }
      await stillGood(call, stream)
      return { status: 200, streaming: true }
    } catch (error) {
      if (!call.raw.response.headersSent) leaveSeat()
      throw error
    }
  }

  function begin({ raw: { request, response } }: Call, from: Position): void {
    request.socket.setTimeout(0)
    request.socket.setNoDelay(true)
    // The body ends with the connection, so events need no chunk around them and are the same bytes for everybody.
    response.useChunkedEncodingByDefault = false
    response.writeHead(200, HEADERS)
    response.write(connectedFrame(randomUUID(), from))
  }

  /** The token may have been revoked between its check and the moment the subscriber could hear of it. */
  async function stillGood({ headers, query }: Call, subscriber: Subscriber): Promise<void> {
    const bearer = bearerOf(headers['authorization'], query['token'] || undefined)
    if (bearer === undefined) return
    try {
      await identify(bearer)
    } catch (error) {
      if (error instanceof AppError && error.kind === 'unauthorized') subscriber.fail(401, EXPIRED)
    }
  }

  const talk = {
    hub,
    identify,
    admit: (who: Identity) => admit(socketRoute, who, 'all'),
    visitorsMayListen: deps.visitorsMayListen,
    takeSeat: (who: Identity) => connections.takeSeat(who),
    wantedBy: (who: Identity, asked: Asked) => wantedBy(who, asked, lookup),
    tableKeys: (names: readonly string[]) =>
      names.flatMap((name) => {
        const table = findTable(schema.read(), name)
        return table ? [keyOf(table)] : []
      }),
    startAt,
    now: () => deps.clock.now(),
    observe: deps.observe,
  }

  async function openSocket(call: Call): Promise<Reply> {
    const { accept, SocketClient } = await import('./websocket/client.ts')
    refuseWhileDraining()
    const { who } = call
    const isKnown = who.kind !== 'anonymous' || deps.visitorsMayListen
    const leaveSeat = isKnown ? connections.takeSeat(who) : undefined
    const connection = call.takeConnection()
    const ws = accept(connection)
    if (!ws) {
      leaveSeat?.()
      return { status: 499, streaming: true }
    }
    const client = new SocketClient(ws, connection.socket, who, config.buffer_size)
    const conversation = new Conversation(client, talk, leaveSeat)
    connection.socket.once('close', () => {
      connections.remove(client)
      hub.remove(client)
      conversation.ended()
    })
    ws.on('message', (data: Buffer, isBinary: boolean) => conversation.hear(data, isBinary))
    client.say({ type: 'connected', client_id: randomUUID() })
    connections.add(client)
    await stillGood(call, client)
    return { status: 101, streaming: true }
  }

  const requires = (): void => {
    if (!config.enabled) throw notFound('realtime is not enabled')
  }
  const token = t.string({ description: 'the bearer, for clients that cannot send headers' })
  const socketRoute = route('GET /api/realtime/ws', {
    summary: 'Changes as they are committed, over a WebSocket',
    auth: 'optional',
    access: 'read',
    // Who sends no token with the handshake sends it as a message.
    openToVisitors: true,
    tokenInQuery: true,
    upgrade: true,
    limit: 'api',
    requires,
    query: { token },
    answers: { 101: null },
    handle: openSocket,
  })

  return {
    routes: [
      route('GET /api/realtime', {
        summary: 'Changes as they are committed, as server-sent events',
        auth: 'optional',
        access: 'read',
        tokenInQuery: true,
        limit: 'api',
        requires,
        query: {
          tables: t.string({ description: 'tables to listen to, separated by commas' }),
          token,
          lastEventId: t.string({ description: 'go on after this event' }),
        },
        answers: { 200: { content: 'text/event-stream' } },
        handle: open,
      }),
      socketRoute,
    ],
    stats: () => ({ realtime_connections: connections.size }),
    start: () => connections.start(),
    drain() {
      draining = true
      connections.sendAway()
    },
    async stop() {
      draining = true
      connections.stop()
      await hub.stop()
    },
  }
}

/** `a, b` → ['a', 'b']; undefined when there is no name. */
function namesIn(text: string | undefined): string[] | undefined {
  const names = (text ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean)
  return names.length === 0 ? undefined : names
}

/** A browser that reconnects sends the header; the URL still holds what the page began with. */
const positionAskedFor = ({ headers, query }: Call): Position | undefined =>
  headers['last-event-id'] || query['lastEventId'] || undefined
