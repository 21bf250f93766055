import { randomUUID } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import { AppError, notFound, unauthorized, unavailable } from '../../core/errors.ts'
import { type Identity, userIdOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Metrics } from '../../core/metrics.ts'
import type { Observe } from '../../core/observe.ts'
import type { ChangeLog, Position } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import { findTable } from '../../db/schema/lookup.ts'
import type { Schema, SchemaCache } from '../../db/schema/snapshot.ts'
import { bearerOf } from '../../http/guard.ts'
import { type Call, type Reply, type Route, route } from '../../http/route.ts'
import { connectedFrame, PING, pingAt, resetFrame } from './frames.ts'
import { Hub } from './hub.ts'
import { type Ends, expiryOf, Stream } from './stream.ts'
import { interestOf } from './visibility/interest.ts'

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
  authEnabled: boolean
  identify: (bearer: string) => Identity | Promise<Identity>
  onRevoked: (heard: (ends: Ends) => void) => void
  clock: Clock
  observe: Observe
  metrics: Metrics
  /** Told of each stream; what it returns is called when the stream is closed. */
  opened: (who: Identity) => () => void
}

export type Realtime = {
  routes: Route[]
  stats(): { realtime_connections: number }
  /** Ends the streams; their clients come back to another process. */
  drain(): void
  stop(): Promise<void>
}

const TICK_MS = 500
const LOOK_AGAIN_MS = 1_000
const HEADERS = { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache', 'X-Accel-Buffering': 'no' }
const EXPIRED = 'invalid or expired token'

export function createRealtime(deps: Deps): Realtime {
  const { db, schema, config, identify, clock } = deps
  const hub = new Hub({ db, log: deps.log, schemaWith, observe: deps.observe })
  const missedAt = new Map<string, number>()
  const perOwner = new Map<string, number>()
  let draining = false
  let tick = 0

  deps.metrics.gauge('svc_realtime_connections', 'Open realtime streams.', [], () => hub.size())
  deps.onRevoked((ends) => {
    for (const stream of hub.streams()) if (ends(stream.interest.who)) stream.fail(401, EXPIRED)
  })

  /** One timer for all: thousands of idle streams cost no timers of their own. */
  const timer = setInterval(() => {
    const now = clock.now()
    const beats = Math.max(1, Math.round((config.heartbeat_interval * 1000) / TICK_MS))
    const turn = tick++ % beats
    let i = 0
    for (const stream of hub.streams()) {
      const expiry = expiryOf(stream.interest.who)
      if (expiry !== undefined && now >= expiry) stream.fail(401, EXPIRED)
      else {
        if (expiry !== undefined) stream.warnOfExpiry(now, expiry)
        if (i++ % beats === turn) beat(stream)
      }
    }
  }, TICK_MS).unref()

  function beat(stream: Stream): void {
    // A client whose tables are quiet would otherwise hold an id that is about to be trimmed.
    const isOld = Date.now() - stream.lastIdAt > deps.retentionSeconds * 250
    const at = isOld ? hub.settledFor(stream) : undefined
    if (at !== undefined) stream.send(pingAt(at), at)
    else stream.write(PING)
  }

  /** A table the snapshot does not know may be a moment old; one that was looked for just now is not. */
  async function schemaWith(names: readonly string[]): Promise<Schema> {
    const known = schema.read()
    const unknown = names.filter((name) => !findTable(known, name))
    const now = performance.now()
    if (unknown.every((name) => now - (missedAt.get(name) ?? Number.NEGATIVE_INFINITY) < LOOK_AGAIN_MS)) return known
    if (missedAt.size > 1_000) missedAt.clear()
    for (const name of unknown) missedAt.set(name, now)
    return schema.refreshIfStale()
  }

  function takePlace(who: Identity): string | undefined {
    const owner = userIdOf(who) ?? (who.kind === 'key' ? who.keyId : undefined)
    if (owner === undefined) return undefined
    const open = perOwner.get(owner) ?? 0
    if (open >= config.max_connections_per_user) {
      throw new AppError('rate_limited', 'connection limit exceeded', { headers: { 'Retry-After': '5' } })
    }
    perOwner.set(owner, open + 1)
    return owner
  }

  function leavePlace(owner: string | undefined): void {
    if (owner === undefined) return
    const open = (perOwner.get(owner) ?? 1) - 1
    if (open > 0) perOwner.set(owner, open)
    else perOwner.delete(owner)
  }

  async function startAt(asked: string | undefined): Promise<{ from: Position; isReset: boolean }> {
    const present = await hub.position()
    if (asked === undefined) return { from: present, isReset: false }
    if (await hub.isKnown(asked)) return { from: asked, isReset: false }
    return { from: await hub.position(), isReset: true }
  }

  async function open(call: Call): Promise<Reply> {
    if (draining) throw unavailable('server is shutting down')
    const { who } = call
    if (who.kind === 'anonymous' && deps.authEnabled) throw unauthorized('authentication required')
    const interest = await interestOf(who, call.query, {
      db,
      schema: () => schema.read(),
      findTable: async (name) => findTable(await schemaWith([name]), name),
    })
    hub.requireBudget(interest)
    if (call.raw.request.method === 'HEAD') return { status: 200, headers: HEADERS }
    const owner = takePlace(who)
    try {
      const { from, isReset } = await startAt(positionAskedFor(call))
      if (draining) throw unavailable('server is shutting down')
      const { response } = call.raw
      const stream = new Stream(interest, owner, response, config.buffer_size, from)
      const closed = deps.opened(who)
      response.once('close', () => {
        hub.remove(stream)
        leavePlace(owner)
        closed()
      })
      begin(call, from, isReset)
      const expiry = expiryOf(who)
      if (expiry !== undefined) stream.warnOfExpiry(clock.now(), expiry)
      hub.add(stream, from)
      if (response.destroyed) hub.remove(stream)
      await stillGood(call, stream)
      return { status: 200, streaming: true }
    } catch (error) {
      if (!call.raw.response.headersSent) leavePlace(owner)
      throw error
    }
  }

  function begin({ raw: { request, response } }: Call, from: Position, isReset: boolean): void {
    request.socket.setTimeout(0)
    request.socket.setNoDelay(true)
    // The body ends with the connection, so events need no chunk around them and are the same bytes for everybody.
    response.useChunkedEncodingByDefault = false
    response.writeHead(200, HEADERS)
    response.write(connectedFrame(randomUUID(), from))
    if (isReset) response.write(resetFrame(from))
  }

  /** The token may have been revoked between its check and the moment the stream could hear of it. */
  async function stillGood({ headers, query }: Call, stream: Stream): Promise<void> {
    const bearer = bearerOf(headers['authorization'], query['token'] || undefined)
    if (bearer === undefined) return
    try {
      await identify(bearer)
    } catch (error) {
      if (error instanceof AppError && error.kind === 'unauthorized') stream.fail(401, EXPIRED)
    }
  }

  return {
    routes: [
      route('GET /api/realtime', {
        summary: 'Changes as they are committed, as server-sent events',
        auth: 'optional',
        access: 'read',
        tokenInQuery: true,
        limit: 'api',
        requires: () => {
          if (!config.enabled) throw notFound('realtime is not enabled')
        },
        query: {
          tables: t.string({ description: 'tables to listen to, separated by commas' }),
          token: t.string({ description: 'the bearer, for clients that cannot send headers' }),
          lastEventId: t.string({ description: 'go on after this event' }),
        },
        answers: { 200: { content: 'text/event-stream' } },
        handle: open,
      }),
    ],
    stats: () => ({ realtime_connections: hub.size() }),
    drain() {
      draining = true
      for (const stream of hub.streams()) stream.leave()
    },
    async stop() {
      draining = true
      clearInterval(timer)
      for (const stream of hub.streams()) stream.leave()
      await hub.stop()
    },
  }
}

/** A browser that reconnects sends the header; the URL still holds what the page began with. */
const positionAskedFor = ({ headers, query }: Call): Position | undefined =>
  headers['last-event-id'] || query['lastEventId'] || undefined
