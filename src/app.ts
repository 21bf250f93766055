import { createAgentsGroup } from './app/agents.ts'
import { createBackupGroup } from './app/backups.ts'
import { cleanupsOf } from './app/cleanups.ts'
import { createData } from './app/data.ts'
import { createEvents } from './app/events.ts'
import { createFiles } from './app/files.ts'
import { createIdentity } from './app/identity.ts'
import { createIntrospectionFeatures } from './app/introspection.ts'
import { jobTypesOf } from './app/job-types.ts'
import { Lifecycle } from './app/lifecycle.ts'
import { createMessages } from './app/messages.ts'
import { createOps } from './app/ops.ts'
import type { AppOptions, RunningServer } from './app/options.ts'
import { openPlatform, openStore } from './app/platform.ts'
import { openSecrets } from './app/secrets.ts'
import { serverConfig } from './app/server-config.ts'
import type { Telemetry } from './app/telemetry/telemetry.ts'
import type { Config } from './config/config.ts'
import { AppError } from './core/errors.ts'
import { createMetrics, type Metrics } from './core/metrics.ts'
import { countWarnings, fanOut } from './core/observe.ts'
import { NO_PEERS } from './core/peers.ts'
import { auditedEffect } from './db/audit.ts'
import { capabilitiesOf } from './db/setup/capabilities.ts'
import type { Feature } from './http/feature.ts'
import { createHttpServer } from './http/server.ts'

/** A refusal; what failed on our side may have happened. */
const hasNoEffect = (error: unknown): boolean => error instanceof AppError && error.status < 500 && error.status !== 408

/** Loaded only when it is configured. */
const telemetryOf = async (config: Config, metrics: Metrics): Promise<Telemetry | undefined> => {
  const endpoint = config.telemetry.otlp_endpoint
  return endpoint ? (await import('./app/telemetry/telemetry.ts')).startTelemetry(endpoint, metrics) : undefined
}

/** The composition root: creates all features and starts the server. */
export async function startApp(config: Config, options: AppOptions): Promise<RunningServer> {
  const { logEntries = () => [], progress = () => {}, askAllWorkers = NO_PEERS, embeddedUrl } = options
  const metrics = createMetrics()
  const observe = fanOut(options.observe, countWarnings(metrics))
  const lifecycle = new Lifecycle()
  try {
    const store = await openStore(config, lifecycle, { observe, progress, embeddedUrl })
    const platform = await openPlatform(config, lifecycle, { observe, metrics }, store)
    const secrets = await openSecrets(config, lifecycle, { ...store, observe })
    const messages = createMessages(config, platform)
    const identity = createIdentity(config, platform, secrets, messages, lifecycle, {
      logEntries,
      askAllWorkers,
      moreWarnings: () => backups.warnings(),
      verifiedBackupAt: () => backups.verifiedAt(),
    })
    const ops = createOps(config, platform, identity, lifecycle, askAllWorkers)
    const data = await createData(config, platform, identity, {
      liveStream: (call, list) => events.liveStream(call, list),
    })
    const events = createEvents(config, platform, identity, lifecycle, data, askAllWorkers)
    const files = createFiles(config, platform, identity, (blob) => backups.mirror(blob))
    const backups = await createBackupGroup(config, platform, identity, { jobs: events.jobs, store: files.store })
    const agents = await createAgentsGroup(config, platform, identity, data, lifecycle, askAllWorkers)
    const groups = [ops, identity, messages, data, events, files, backups, agents]
    const served = groups.flatMap((group): Feature[] => group.features)
    const introspection = createIntrospectionFeatures(config, platform, askAllWorkers, served, {
      authSettings: identity.authSettings,
      dashboardFolder: options.dashboardFolder,
    })
    const features: readonly Feature[] = [...served, ...introspection.features]
    // Parts stop in reverse order, so the queue stops before everything that its handlers use.
    await lifecycle.start([...features, platform.queue])

    const telemetry = await telemetryOf(config, metrics)
    if (telemetry) lifecycle.own(telemetry)
    const { db, changeLog } = platform
    const cleanups = cleanupsOf(config, { db, store: files.store, trimLog: () => changeLog.trim() })
    await events.jobs.work(jobTypesOf(features, cleanups))
    const routes = features.flatMap((feature) => feature.routes ?? [])
    const http = createHttpServer({
      routes,
      identify: identity.identify,
      limiter: platform.limiter,
      audit: identity.admin.audit,
      runOnce: data.runOnce,
      tracer: telemetry?.tracer,
      wrote: platform.replicas && ((who) => platform.replicas?.wrote(who)),
      appLimit: identity.apps.appLimit,
      isUnlocked: identity.admin.isUnlocked,
      auditEffect: (entry, effect) => auditedEffect(platform.db, entry, effect, hasNoEffect),
      sites: files.hosted,
      authEnabled: config.auth.enabled,
      observe,
      onRequest: ops.onRequest,
      onDrain: () => lifecycle.drain(),
      reference: () => `${platform.publicUrl.get()}/api/docs`,
      config: serverConfig(config),
    })
    const { port, url } = await lifecycle.own(http).listen()
    platform.publicUrl.listensAt(port)
    platform.announce(url)
    return {
      url,
      routes,
      generatedPassword: identity.admin.generatedPassword(),
      issueAdminToken: () => identity.admin.tokens.issue(),
      endAdminToken: (token) => identity.admin.tokens.end(token),
      describe: async () => ({
        ...(await capabilitiesOf(platform.db)),
        warnings: [...platform.warnings(), ...backups.warnings()],
      }),
      cleanups,
      close: () => lifecycle.stop(),
    }
  } catch (error) {
    await lifecycle.stop()
    throw error
  }
}
