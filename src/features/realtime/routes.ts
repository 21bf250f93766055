import type { Clock } from '../../core/clock.ts'
import { notFound } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import type { Metrics } from '../../core/metrics.ts'
import type { Observe } from '../../core/observe.ts'
import type { Peers } from '../../core/peers.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db, Notifications } from '../../db/db.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import type { Feature } from '../../http/feature.ts'
import { type ChannelConfig, Channels } from './channels/channels.ts'
import { channelRoutes } from './channels/routes.ts'
import { connectedRoute } from './connected.ts'
import { Connections } from './deliver/connections.ts'
import type { GraphqlRequests } from './graphql-conversation.ts'
import { graphqlRoute } from './graphql-route.ts'
import { Hub } from './hub.ts'
import { LiveQueries } from './live/queries.ts'
import type { LiveSessionDeps } from './live/session.ts'
import { liveStream, type OpenLiveStream } from './live-stream.ts'
import { socketRoute } from './socket-route.ts'
import { streamRoute } from './stream-route.ts'
import { Tables } from './subscribe/tables.ts'
import { viewOf } from './visibility/batch-view.ts'
import { CallerQueue, SHARES } from './visibility/caller-queue.ts'
import { newShapeCache } from './visibility/shapes.ts'

export type RealtimeConfig = ChannelConfig & {
  enabled: boolean
  max_connections_per_user: number
  heartbeat_interval: number
  buffer_size: number
  live_interval_ms: number
}

type Deps = {
  db: Db & Notifications
  /** Signs what processes tell each other of channels. */
  channelKey: Buffer
  schema: SchemaCache
  log: ChangeLog
  config: RealtimeConfig
  /** `events.retention` */
  retentionSeconds: number
  /** Whether callers without a token may listen. */
  visitorsMayListen: boolean
  identify: (bearer: string) => Identity | Promise<Identity>
  countRequest: (who: Identity, ip: string) => Promise<void>
  onRevoked: (end: (isRevoked: (who: Identity) => boolean) => void) => void
  clock: Clock
  observe: Observe
  metrics: Metrics
  askAllWorkers: Peers
  /** A connection of theirs counts as open until the answer is called. */
  opened: (who: Identity) => () => void
  /** Connections for live lists alone. */
  livePool: () => Promise<Db>
  liveList: LiveSessionDeps['list']
  graphql: GraphqlRequests
  /** Whether the database tells of changes of its schema. */
  hasSchemaTrigger: boolean
}

/** What is wanted (`subscribe/`) → what each may see of a page of the log (`visibility/`) → clients (`deliver/`). */
export function createRealtime(deps: Deps): Feature & { liveStream: OpenLiveStream } {
  const { db, log, config, clock, observe, visitorsMayListen, identify } = deps
  const tables = new Tables(deps)
  const [filters, policies] = [new CallerQueue(clock, SHARES.filters), new CallerQueue(clock, SHARES.policies)]
  const viewDeps = { db, log, filters, policies, shapes: newShapeCache(), schema: tables, observe }
  const hub = new Hub({
    log,
    clock,
    observe,
    view: (changes, interests) => viewOf(viewDeps, changes, interests),
    isSlow: (payer) => policies.isSlow(payer),
  })
  const channels = new Channels({ db, key: deps.channelKey, observe, policies, config })
  const queries = new LiveQueries({
    connect: deps.livePool,
    notifications: db,
    hub,
    schema: deps.schema,
    hasSchemaTrigger: deps.hasSchemaTrigger,
    isAlone: () => log.isAlone,
    lanes: new CallerQueue(clock, SHARES.live),
    held: channels.held,
    intervalMs: config.live_interval_ms,
    observe,
  })
  const live = { queries, list: deps.liveList, visitorsMayListen }
  const connections = new Connections({
    ...deps,
    heartbeatSeconds: config.heartbeat_interval,
    maxPerOwner: config.max_connections_per_user,
  })
  const context = {
    ...{ hub, connections, tables, filters, visitorsMayListen },
    client: { bufferSize: config.buffer_size, clock },
    requires() {
      if (!config.enabled) throw notFound('realtime is not enabled', 'feature_disabled')
    },
  }
  deps.metrics.gauge('svc_realtime_connections', 'Open realtime streams.', [], () => connections.size)
  deps.metrics.gauge('svc_realtime_live_queries', 'Lists that are kept true.', [], () => queries.size)
  deps.onRevoked((isRevoked) => connections.endRevoked(isRevoked))

  return {
    routes: [
      streamRoute(context),
      socketRoute({ ...context, identify, countRequest: deps.countRequest, clock, observe, channels, live }),
      graphqlRoute({
        ...context,
        ...{ identify, countRequest: deps.countRequest, clock, queries, graphql: deps.graphql },
      }),
      connectedRoute({ db, connections, askAllWorkers: deps.askAllWorkers, requires: context.requires }),
      ...channelRoutes({ db, channels, requires: context.requires }),
    ],
    liveStream: liveStream(context, queries),
    stats: () => ({ realtime_connections: connections.size }),
    start: () => connections.start(),
    drain: () => connections.drain(),
    async stop() {
      connections.stop()
      policies.stop()
      await queries.stop()
      await channels.stop()
      await hub.stop()
    },
  }
}
