import { type Config, publicBaseUrl } from '../config/config.ts'
import { reasonOf } from '../core/errors.ts'
import type { Metrics } from '../core/metrics.ts'
import type { Observe } from '../core/observe.ts'
import { UsageMeter } from '../core/usage-meter.ts'
import { ChangeLog } from '../db/changes/log.ts'
import { createCounters } from '../db/counters.ts'
import { AsOf } from '../db/history/as-of.ts'
import { DryRuns } from '../db/history/dry-run.ts'
import { type UndoOutcome, type UndoRequest, undoChanges } from '../db/history/undo.ts'
import { refreshDialects } from '../db/pool/dialect.ts'
import type { Pool } from '../db/pool/pool.ts'
import { Queue } from '../db/queue/queue.ts'
import type { Replicas } from '../db/replicas/replicas.ts'
import { openSchemaCache } from '../db/schema/introspect/cache.ts'
import { openTablesWarning, reportOpenTables } from '../db/schema/introspect/open-tables.ts'
import type { SchemaCache } from '../db/schema/snapshot.ts'
import { ensureSchemaTrigger } from '../db/schema/trigger.ts'
import { Candidates } from '../db/search/candidates.ts'
import { type AdminLogins, grantNew } from '../db/setup/admin-logins.ts'
import { openDatabase } from '../db/setup/database.ts'
import { startEmbedded } from '../db/setup/embedded/embedded.ts'
import { rootSecretFile, type SecretFile } from '../db/setup/embedded/secret-file.ts'
import { hasHookFunctions } from '../features/hooks/hooks.ts'
import { createOutgoing, type Outgoing } from '../http/out/outgoing.ts'
import { createLimiter, type Limiter } from '../http/rate-limit.ts'
import { closedOutgoing, drillWarning, isDrill } from './drill.ts'
import type { Lifecycle } from './lifecycle.ts'

/** The services that all feature groups use. */
export type Platform = {
  observe: Observe
  db: Pool
  /** Undefined: none is configured. */
  replicas: Replicas | undefined
  /** Of a connection to the primary that is no pooler's. */
  directUrl: () => string
  /** Connections for live lists alone, opened on first use. */
  livePool: () => Promise<Pool>
  /** The database tells of changes of its schema. */
  hasSchemaTrigger: boolean
  schema: SchemaCache
  queue: Queue
  changeLog: ChangeLog
  /** What the database knows the server by. */
  logKey: string
  dryRuns: DryRuns
  asOf: AsOf
  undo(request: UndoRequest): Promise<UndoOutcome>
  adminLogins: AdminLogins
  /** Why hook functions cannot be called. */
  noHookFunctions: string | undefined
  candidates: Candidates
  /** Connections of their own for agents. */
  openAgentPool(): Promise<Pool>
  limiter: Limiter
  metrics: Metrics
  usage: UsageMeter
  /** HTTP client for URLs from the configuration, which may be in a private network. */
  gateways: Outgoing
  /** The public origin; final once the server listens. */
  publicUrl: PublicUrl
  /** It runs on a restored copy that was not taken over. */
  isDrill: boolean
  /** Warnings for the operator. */
  warnings(): readonly string[]
  /** Writes the listen address to the lock of the data directory, for `svc`. */
  announce(url: string): void
}

/** With port 0 the origin is known only after the server listens. */
export class PublicUrl {
  readonly #config: Config
  #port: number | undefined

  constructor(config: Config) {
    this.#config = config
  }
  get(): string {
    return publicBaseUrl(this.#config, this.#port)
  }
  listensAt(port: number): void {
    this.#port = port
  }
}

type StoreOptions = { observe: Observe; progress: (line: string) => void; embeddedUrl: string | undefined }

/** At a start of several machines the database may come last, or be between two primaries. */
const PRIMARY_WAIT_MS = 30_000

/** The database, connected and migrated. */
export async function openStore(
  config: Config,
  lifecycle: Lifecycle,
  { observe, progress, embeddedUrl }: StoreOptions,
) {
  const { url, announce, secretFile } = await postgres(config, lifecycle, progress, embeddedUrl)
  const { pool, replicas, openAnother, warnings, logKey, adminLogins, dialects, noHookFunctions } = await openDatabase({
    url,
    config: config.database,
    api: config.api,
    observe,
    progress,
    hasHookFunctions: hasHookFunctions(config.auth.hooks),
    waitMs: PRIMARY_WAIT_MS,
  })
  const db = lifecycle.own(pool)
  if (replicas) lifecycle.own(replicas)
  const livePool = once(() => openAnother(OF_LIVE_LISTS))
  lifecycle.own({ stop: async () => (await livePool.opened)?.stop() })
  const noTrigger = await ensureSchemaTrigger(db)
  return {
    db,
    replicas,
    livePool: livePool.open,
    openAnother,
    hasTrigger: noTrigger === undefined,
    warnings: [...warnings, ...(noTrigger ? [noTrigger] : [])],
    logKey,
    adminLogins,
    dialects,
    noHookFunctions,
    announce,
    secretFile,
  }
}

export async function openPlatform(
  config: Config,
  lifecycle: Lifecycle,
  { observe, metrics }: { observe: Observe; metrics: Metrics },
  {
    db,
    replicas,
    livePool,
    openAnother,
    hasTrigger,
    warnings,
    logKey,
    adminLogins,
    dialects,
    noHookFunctions,
    announce,
  }: Awaited<ReturnType<typeof openStore>>,
): Promise<Platform> {
  const drill = isDrill(config)
  const outgoing = lifecycle.own(createOutgoing({ allowPrivateNetworks: true }))
  const schema = lifecycle.own(await openSchemaCache({ db, schemas: config.api.schemas, observe }))
  const changeLog = lifecycle.own(
    new ChangeLog({ db, observe, retentionSeconds: config.events.retention, history: config.history, key: logKey }),
  )
  await changeLog.start()
  schema.onChange(() => {
    // An adoption changes the schema, so that this follows it.
    refreshDialects(db, dialects).catch((error: unknown) =>
      observe({ message: 'schema check failed', attrs: { error: reasonOf(error) } }),
    )
    grantNew(db, adminLogins, config.api.schemas).catch((error: unknown) =>
      observe({ message: 'logins of administrators lack grants', attrs: { error: reasonOf(error) } }),
    )
  })
  const isOpen = config.api.anonymous === 'all'
  if (isOpen) reportOpenTables(schema, observe)
  const openness = () => {
    const warning = isOpen ? openTablesWarning(schema.read()) : undefined
    return warning === undefined ? [] : [warning]
  }
  const counters = lifecycle.own(createCounters({ db }))
  metrics.gauge('svc_change_log_lag_seconds', 'Age of the oldest unread change.', [], () => changeLog.lastLag(), 'max')
  metrics.gauge(
    'svc_change_log_unsettled_seconds',
    'How long the end of the change log has been waiting for an open transaction.',
    [],
    () => changeLog.unsettledSeconds(),
    'max',
  )
  return {
    observe,
    db,
    replicas,
    directUrl: () => db.primaryUrl(),
    livePool,
    hasSchemaTrigger: hasTrigger,
    schema,
    queue: new Queue({
      db,
      observe,
      pollMs: config.jobs.poll_interval_ms,
      finishMs: config.server.shutdown_timeout * 1000,
      isIdle: drill,
    }),
    changeLog,
    logKey,
    dryRuns: new DryRuns({ db, schema, key: logKey }),
    asOf: new AsOf({ db, key: logKey, config: config.history }),
    undo: (request) => undoChanges({ db, key: logKey, observe }, request),
    adminLogins,
    noHookFunctions,
    candidates: new Candidates(logKey),
    openAgentPool: () => openAnother(OF_AGENTS),
    limiter: createLimiter({ counters }),
    metrics,
    usage: new UsageMeter(),
    gateways: drill ? closedOutgoing(outgoing) : outgoing,
    isDrill: drill,
    publicUrl: new PublicUrl(config),
    warnings: () => [
      ...(drill ? [drillWarning(config)] : []),
      ...warnings,
      ...schema.read().warnings,
      ...openness(),
      ...changeLog.warnings(),
    ],
    announce,
  }
}

/** The one that listens and watches; every pool has its own. */
const WATCHING = 1

/** How many connections to the primary the pools of all workers open at most. Exports, imports, admin SQL and commands come to it for a while. */
export function mostConnections({ database, agents, server }: Config, workers = server.workers): number {
  const live = OF_LIVE_LISTS.maxConns + WATCHING
  const ofAgents = agents.enabled ? OF_AGENTS.maxConns + WATCHING : 0
  return Math.max(2 * workers, database.max_conns) + workers * (WATCHING + live + ofAgents)
}

/** Three for callers, of which slow lists take two at most, and the rest for what the server asks itself. */
const OF_LIVE_LISTS = { maxConns: 6, minConns: 1 }

/** They are slow and many, and people come first. */
const OF_AGENTS = { maxConns: 4, minConns: 0, statementTimeoutMs: 5_000 }

/** Opened on the first call; after a failure, on the next. */
function once<T>(make: () => Promise<T>): { open: () => Promise<T>; readonly opened: Promise<T | undefined> } {
  let made: Promise<T> | undefined
  return {
    open: () => {
      made ??= make().catch((error: unknown) => {
        made = undefined
        throw error
      })
      return made
    },
    get opened() {
      return made?.catch(() => undefined) ?? Promise.resolve(undefined)
    },
  }
}

async function postgres(
  { database, data_dir: dataDir }: Config,
  lifecycle: Lifecycle,
  log: (line: string) => void,
  embeddedUrl: string | undefined,
): Promise<{ url: string; announce(url: string): void; secretFile: SecretFile | undefined }> {
  if (database.url !== '') return { url: database.url, announce: () => {}, secretFile: undefined }
  const secretFile = rootSecretFile(dataDir)
  if (embeddedUrl !== undefined) return { url: embeddedUrl, announce: () => {}, secretFile }
  const cluster = lifecycle.own(await startEmbedded({ dataDir, binDir: database.embedded_bin_dir, log }))
  return { url: cluster.url, announce: cluster.lock.announce, secretFile }
}
