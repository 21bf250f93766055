import type { LogEntry } from './cli/log/ring.ts'
import { type Config, publicBaseUrl } from './config/config.ts'
import { createMetrics } from './core/metrics.ts'
import type { Observe } from './core/observe.ts'
import { deriveKey } from './core/secret.ts'
import { createChangeLog } from './db/changes/log.ts'
import { createCounters } from './db/counters.ts'
import { createQueue } from './db/queue/queue.ts'
import { openSchemaCache } from './db/schema/cache.ts'
import { type Capability, capabilitiesOf } from './db/setup/capabilities.ts'
import { openDatabase } from './db/setup/database.ts'
import { startEmbedded } from './db/setup/embedded/embedded.ts'
import { createAdmin } from './features/admin/routes.ts'
import { createApiKeys } from './features/api-keys/routes.ts'
import { revokeKeysOf } from './features/api-keys/sql.ts'
import { createApps } from './features/apps/routes.ts'
import { createAuth } from './features/auth/routes.ts'
import { createPasswords } from './features/auth/sign-in/hashing.ts'
import { loadRootSecret } from './features/auth/tokens/keys.ts'
import { createCollections } from './features/collections/routes.ts'
import { watchTables } from './features/collections/watched-tables.ts'
import { createEmail } from './features/email/routes.ts'
import { createHealth } from './features/health/routes.ts'
import { createMetricsFeature } from './features/metrics/routes.ts'
import { createRealtime } from './features/realtime/routes.ts'
import { createRpc } from './features/rpc/routes.ts'
import { createSchemaFeature } from './features/schema/routes.ts'
import { createSms } from './features/sms/sms.ts'
import { createUsers } from './features/users/routes.ts'
import { createWebhooks } from './features/webhooks/routes.ts'
import { isLoopbackHost } from './http/out/address-guard.ts'
import { createOutgoing } from './http/out/outgoing.ts'
import { createLimiter } from './http/rate-limit.ts'
import type { Route } from './http/route.ts'
import { createHttpServer, type RequestInfo } from './http/server.ts'
import { version } from './version.ts'

export type App = {
  /** Where it listens. */
  url: string
  routes: readonly Route[]
  /** The admin password that this process generated, if it did; shown once. */
  generatedPassword: string | undefined
  /** An admin token for the command line tool on this machine. */
  issueAdminToken(): Promise<string | undefined>
  endAdminToken(token: string): Promise<void>
  /** For the banner of `svc start`. */
  describe(): Promise<{ database: string; capabilities: Capability[] }>
  warnings(): readonly string[]
  /** Helpers that remove what is over, by name; nothing runs them unasked. */
  cleanups: Readonly<Record<string, () => Promise<number>>>
  close(): Promise<void>
}

export type AppOptions = {
  observe: Observe
  /** The entries of GET /api/admin/logs. */
  logEntries?: () => LogEntry[]
  /** Told what a slow first start is doing. */
  progress?: (line: string) => void
}

/** The composition root: read top to bottom, this is the architecture diagram. */
export async function startApp(config: Config, options: AppOptions): Promise<App> {
  const { observe, logEntries = () => [], progress = () => {} } = options
  /** Undone in reverse order, at the end of a life or of a failed start. */
  const closers: (() => Promise<void> | void)[] = []
  let announce = (_url: string) => {}
  let publicUrl = publicBaseUrl(config)
  const close = async () => {
    for (const undo of closers.splice(0).reverse()) await undo()
  }
  try {
    const metrics = createMetrics()
    // Gateways are addresses the operator configured: they may be in the operator's own network.
    const gateways = createOutgoing({ allowPrivateNetworks: true })
    closers.push(() => gateways.close())

    // The database
    const { pool: db, warnings } = await openDatabase({
      url: config.database.url || (await startPostgres()),
      config: config.database,
      api: config.api,
      observe,
      progress,
    })
    closers.push(() => db.close())
    const schema = await openSchemaCache({ db, schemas: config.api.schemas, observe })
    closers.push(() => schema.stop())
    const queue = createQueue({ db, observe })
    const changeLog = createChangeLog({ db, observe, retentionSeconds: config.events.retention })
    closers.push(() => changeLog.stop())
    await changeLog.start()

    const counters = createCounters({ db })
    closers.push(() => counters.stop())
    const limiter = createLimiter({ counters })

    // Messages
    const email = createEmail({
      db,
      queue,
      outgoing: gateways,
      observe,
      config: config.email,
      appName: config.server.app_name,
    })
    closers.push(() => email.stop())
    const sms = createSms({ queue, outgoing: gateways, observe, config: config.auth })

    // Who is calling
    const passwords = createPasswords({
      memory: config.auth.argon2_memory,
      time: config.auth.argon2_time,
      threads: config.auth.argon2_threads,
      concurrency: config.auth.hash_concurrency,
      queue: config.auth.hash_queue,
    })
    closers.push(() => passwords.close())
    const admin = createAdmin({
      db,
      config: config.admin,
      audit: config.audit,
      passwords,
      observe,
      warnings: () => [...warnings, ...schema.warnings()],
      logs: { size: config.log.buffer_size, entries: logEntries },
      openConnection: () => db.openConnection(),
      reloadSchema: async () => void (await schema.reload()),
      schemas: config.api.schemas,
      version,
      poolStats: () => db.stats(),
      extraStats: [
        () => ({
          change_log_lag_seconds: changeLog.lastLag(),
          realtime_connections: realtime.connections(),
          webhook_queue: webhooks.stats(),
        }),
      ],
    })
    closers.push(() => admin.stop())
    const generatedPassword = await admin.start()
    const apiKeys = createApiKeys({ db, revoked: (keyId) => auth.revoked([{ kind: 'key', subject: keyId }]) })
    closers.push(() => apiKeys.stop())
    const apps = createApps({ db })
    const rootSecret = await loadRootSecret(db, config.auth.jwt_secret)
    const encryptionKey = config.auth.encryption_key
      ? Buffer.from(config.auth.encryption_key, 'hex')
      : deriveKey(rootSecret, '', 'secrets at rest')
    const auth = await createAuth({
      db,
      observe,
      config: config.auth,
      appName: config.server.app_name,
      publicBaseUrl: () => publicUrl,
      rootSecret,
      encryptionKey,
      passwords,
      outgoing: gateways,
      queueMail: email.queueMail,
      wakeMail: email.wakeMail,
      queueSms: sms.queueSms,
      wakeSms: sms.wakeSms,
      resolveApiKey: apiKeys.resolveApiKey,
      resolveAdminToken: async (token) => {
        const who = await admin.tokens.resolve(token)
        return who?.kind === 'admin' ? who : undefined
      },
      foreign: { dropCredentials: (userId) => [revokeKeysOf(userId)] },
    })
    closers.push(() => auth.close())
    const { identify } = auth
    // Job types: they run when somebody queues them, and nothing schedules them.
    for (const [type, cleanup] of Object.entries(auth.cleanups)) {
      queue.work(type, { concurrency: 1, leaseSeconds: 60, retryDelays: [5, 60] }, async () => void (await cleanup()))
    }
    const users = createUsers({
      db,
      authEnabled: config.auth.enabled,
      revoked: (userId) => auth.revoked([{ kind: 'user', subject: userId }]),
    })

    // What it offers
    const health = createHealth({ databaseState: () => db.state(), draining: () => http.draining() })
    const monitoring = createMetricsFeature({
      metrics,
      config: config.metrics,
      resolveAdmin: admin.tokens.resolve,
      poolStats: () => db.stats(),
      hashQueue: () => passwords.queued(),
    })
    await watchTables({ db, schema, observe }, config.realtime.watch)
    const collections = createCollections({ db, schema, changed: () => changeLog.wake() })
    const rpc = createRpc({ db, schema, changed: () => changeLog.wake() })
    const realtime = createRealtime({
      db,
      schema,
      log: changeLog,
      config: config.realtime,
      retentionSeconds: config.events.retention,
      authEnabled: config.auth.enabled,
      identify,
      onRevoked: auth.onRevoked,
      clock: auth.clock,
      observe,
      metrics,
    })
    closers.push(() => realtime.stop())
    metrics.gauge('svc_change_log_lag_seconds', 'Age of the oldest unread change.', [], () => changeLog.lastLag())
    const receivers = createOutgoing({
      allowPrivateNetworks: orAuto(config.webhooks.allow_private_networks, isLoopbackHost(config.server.host)),
    })
    closers.push(() => receivers.close())
    const webhooks = createWebhooks({
      db,
      log: changeLog,
      queue,
      outgoing: receivers,
      encryptionKey,
      config: config.webhooks,
      version,
      observe,
      metrics,
    })
    closers.push(() => webhooks.stop())
    const features = [
      health,
      monitoring,
      admin,
      auth,
      users,
      apiKeys,
      apps,
      email,
      createSchemaFeature({ schema }),
      collections,
      rpc,
      realtime,
      webhooks,
    ]
    const routes = features.flatMap((feature) => feature.routes)

    const http = createHttpServer({
      routes,
      identify,
      limiter,
      audit: admin.audit,
      appLimit: apps.appLimit,
      authEnabled: config.auth.enabled,
      observe,
      onRequest: (done) => {
        monitoring.requestDone(done.method, done.route, done.status, done.ms)
        observe(accessLine(done))
      },
      config: {
        host: config.server.host,
        port: config.server.port,
        publicBaseUrl: publicBaseUrl(config),
        corsOrigins: config.server.cors_origins,
        trustedProxies: config.server.trusted_proxies,
        bodyLimit: config.server.body_limit,
        shutdownTimeoutSeconds: config.server.shutdown_timeout,
        rateLimits: config.rate_limit,
      },
    })
    http.onDrain(() => realtime.drain())
    // Before anything its handlers use.
    closers.push(() => queue.stop())
    const { port, url } = await http.listen()
    publicUrl = publicBaseUrl(config, port)
    closers.push(() => http.close())
    announce(url)
    return {
      url,
      routes,
      generatedPassword,
      issueAdminToken: () => admin.tokens.issue(),
      endAdminToken: (token) => admin.tokens.end(token),
      describe: async () => {
        const { serverVersion, capabilities } = await capabilitiesOf(db)
        return { database: `PostgreSQL ${serverVersion} ${placeOf(config)}`, capabilities }
      },
      warnings: () => [...warnings, ...schema.warnings()],
      cleanups: auth.cleanups,
      close,
    }
  } catch (error) {
    await close()
    throw error
  }

  async function startPostgres(): Promise<string> {
    const cluster = await startEmbedded({
      dataDir: config.data_dir,
      ...(config.database.embedded_bin_dir && { binDir: config.database.embedded_bin_dir }),
      log: progress,
    })
    closers.push(() => cluster.stop())
    announce = cluster.lock.announce
    return cluster.url
  }
}

const orAuto = (setting: boolean | 'auto', auto: boolean): boolean => (setting === 'auto' ? auto : setting)

const placeOf = ({ database, data_dir }: Config): string => {
  if (database.url === '') return `embedded in ${data_dir}`
  return URL.canParse(database.url) ? `at ${new URL(database.url).host || 'a local socket'}` : 'as configured'
}

const accessLine = ({ method, route, path, status, ms, ip, requestId, userId }: RequestInfo) => ({
  level: 'info' as const,
  message: 'request',
  attrs: { method, route, path, status, ms: Math.round(ms * 100) / 100, ip, requestId, userId },
})
