import { type Config, publicBaseUrl } from './config.ts'
import { ANONYMOUS } from './core/identity.ts'
import { createMetrics } from './core/metrics.ts'
import type { Observe } from './core/observe.ts'
import { openDatabase } from './db/database.ts'
import { startEmbedded } from './db/embedded.ts'
import { createQueue } from './db/queue.ts'
import { createApiKeys } from './features/api-keys/routes.ts'
import { createApps } from './features/apps/routes.ts'
import { createEmail } from './features/email/routes.ts'
import { createHealth } from './features/health/routes.ts'
import { createSms } from './features/sms/sms.ts'
import { createOutgoing } from './http/outgoing.ts'
import { createLimiter } from './http/rate-limit.ts'
import { createHttpServer } from './http/server.ts'
import type { LogEntry } from './observe/ring.ts'

export type App = {
  /** Where it listens. */
  url: string
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
  const { observe, progress = () => {} } = options
  /** Undone in reverse order, at the end of a life or of a failed start. */
  const closers: (() => Promise<void> | void)[] = []
  const close = async () => {
    for (const undo of closers.splice(0).reverse()) await undo()
  }
  try {
    const metrics = createMetrics()
    const databaseUrl = config.database.url || (await embedded())
    const { pool } = await openDatabase({
      url: databaseUrl,
      config: config.database,
      api: config.api,
      observe,
      progress,
    })
    closers.push(() => pool.close())

    // Gateways are addresses the operator configured: they may be in the operator's own network.
    const gateways = createOutgoing({ allowPrivateNetworks: true })
    closers.push(() => gateways.close())
    const queue = createQueue({ db: pool, observe })
    const email = createEmail({
      db: pool,
      queue,
      outgoing: gateways,
      observe,
      config: config.email,
      appName: config.server.app_name,
    })
    closers.push(() => email.stop())
    const sms = createSms({ queue, outgoing: gateways, observe, config: config.auth })
    closers.push(() => queue.stop())
    const apps = createApps({ db: pool })
    const apiKeys = createApiKeys({ db: pool })
    closers.push(() => apiKeys.stop())
    void sms

    const health = createHealth({ databaseState: () => pool.state(), draining: () => http.draining() })
    const features = [health, email, apps, apiKeys]

    const http = createHttpServer({
      routes: features.flatMap(({ routes }) => routes),
      identify: () => ANONYMOUS,
      limiter: createLimiter({ counters: { add: async () => ({ count: 1, secondsLeft: 1, resetAt: 0 }) } }),
      audit: async () => {},
      appLimit: apps.appLimit,
      authEnabled: config.auth.enabled,
      observe,
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
    const { url } = await http.listen()
    closers.push(() => http.close())
    void metrics
    return { url, close }
  } catch (error) {
    await close()
    throw error
  }

  async function embedded(): Promise<string> {
    const cluster = await startEmbedded({
      dataDir: config.data_dir,
      ...(config.database.embedded_bin_dir && { binDir: config.database.embedded_bin_dir }),
      log: progress,
    })
    closers.push(() => cluster.stop())
    return cluster.url
  }
}
