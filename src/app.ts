import { cleanupsOf } from './app/cleanups.ts'
import { createData } from './app/data.ts'
import { createEvents } from './app/events.ts'
import { createFiles } from './app/files.ts'
import { createIdentity } from './app/identity.ts'
import { jobTypesOf } from './app/job-types.ts'
import { Lifecycle } from './app/lifecycle.ts'
import { createMessages } from './app/messages.ts'
import { createOperator } from './app/operator.ts'
import { openPlatform, openStore } from './app/platform.ts'
import { serverConfig } from './app/server-config.ts'
import type { Config } from './config/config.ts'
import { ALONE, type Census } from './core/census.ts'
import type { LogEntry, Observe } from './core/observe.ts'
import { type Capability, capabilitiesOf } from './db/setup/capabilities.ts'
import type { Feature } from './http/feature.ts'
import type { Route } from './http/route.ts'
import { createHttpServer } from './http/server.ts'

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
  describe(): Promise<{ serverVersion: string; capabilities: Capability[]; warnings: readonly string[] }>
  /** Helpers that remove what is over, by name. */
  cleanups: Readonly<Record<string, () => Promise<number>>>
  close(): Promise<void>
}

export type AppOptions = {
  observe: Observe
  /** The entries of GET /api/admin/logs. */
  logEntries?: () => LogEntry[]
  /** Told what a slow first start is doing. */
  progress?: (line: string) => void
  /** What the other processes of this server say. */
  census?: Census
  /** The embedded PostgreSQL, when another process of this server runs it. */
  embeddedUrl?: string | undefined
}

/** The composition root: read top to bottom, this is the architecture diagram. */
export async function startApp(config: Config, options: AppOptions): Promise<App> {
  const { observe, logEntries = () => [], progress = () => {}, census = ALONE, embeddedUrl } = options
  const life = new Lifecycle()
  const features: Feature[] = []
  try {
    const stats = () => Object.assign({}, ...features.map((feature) => feature.stats?.()))
    const store = await openStore(config, life, { observe, progress, embeddedUrl })
    const platform = await openPlatform(config, life, observe, store)
    const messages = createMessages(config, platform)
    const identity = await createIdentity(config, platform, messages, life, { logEntries, stats, census })
    const operator = createOperator(config, platform, identity, life, census)
    const data = await createData(config, platform, identity, () => routes)
    const events = createEvents(config, platform, identity, life)
    const files = createFiles(config, platform, identity)
    features.push(...[operator, identity, messages, data, events, files].flatMap((group): Feature[] => group.features))
    await life.start(features)

    const { db, changeLog } = platform
    const cleanups = cleanupsOf(config, { db, store: files.store, trimLog: () => changeLog.trim() })
    // Stops before anything that its handlers use.
    life.own(platform.queue)
    await events.jobs.work(jobTypesOf(features, cleanups))
    const routes: readonly Route[] = features.flatMap((feature) => feature.routes ?? [])
    const http = createHttpServer({
      routes,
      identify: identity.identify,
      limiter: platform.limiter,
      audit: identity.admin.audit,
      appLimit: identity.apps.appLimit,
      sites: files.hosted,
      authEnabled: config.auth.enabled,
      observe,
      onRequest: operator.onRequest,
      onDrain: () => {
        life.drain()
        platform.queue.drain()
      },
      config: serverConfig(config),
    })
    const { port, url } = await life.own(http).listen()
    platform.publicUrl.listensAt(port)
    platform.announce(url)
    return {
      url,
      routes,
      generatedPassword: identity.admin.generatedPassword(),
      issueAdminToken: () => identity.admin.tokens.issue(),
      endAdminToken: (token) => identity.admin.tokens.end(token),
      describe: async () => ({ ...(await capabilitiesOf(platform.db)), warnings: platform.warnings() }),
      cleanups,
      close: () => life.stop(),
    }
  } catch (error) {
    await life.stop()
    throw error
  }
}
