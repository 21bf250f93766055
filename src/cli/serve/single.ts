import { setFlagsFromString } from 'node:v8'
import { isDrill } from '../../app/drill.ts'
import type { RunningServer } from '../../app/options.ts'
import { startApp } from '../../app.ts'
import { type Config, publicBaseUrl } from '../../config/config.ts'
import { version } from '../../core/version.ts'
import { databaseRefusal } from '../../db/pg-errors.ts'
import { hostNames } from '../../db/protocol/hosts.ts'
import type { Log } from '../log/log.ts'
import type { BannerFacts } from './banner.ts'

/** A running server as `svc start` sees it: this process, or several workers. */
export type Server = Pick<RunningServer, 'url' | 'issueAdminToken' | 'endAdminToken' | 'close'> & {
  facts(): Promise<BannerFacts>
}

export async function startSingle(
  config: Config,
  { log, progress }: { log: Log; progress: (line: string) => void },
): Promise<Server> {
  const app = await startApp(config, { observe: log.observe, logEntries: log.entries, progress })
  return Object.assign(app, { facts: () => factsOf(app, config) })
}

/** For the banner. */
export async function factsOf(app: RunningServer, config: Config): Promise<BannerFacts> {
  const { serverVersion, capabilities, warnings } = await app.describe()
  const port = Number(new URL(app.url).port || 80)
  return {
    appVersion: version,
    url: publicBaseUrl(config, port),
    dashboard: config.admin.dashboard ? `${publicBaseUrl(config, port)}/admin/` : undefined,
    database: `PostgreSQL ${serverVersion} ${databaseLocation(config)}`,
    capabilities,
    warnings,
    adminPassword: app.generatedPassword,
    drill: isDrill(config),
  }
}

const databaseLocation = ({ database, data_dir }: Config): string => {
  if (database.url === '') return `embedded in ${data_dir}`
  const names = hostNames(database.url)
  return names === '' || names.startsWith('/') ? 'at a local socket' : `at ${names}`
}

/** Why a start failed, in one sentence. */
export const explainStart = (config: Config, error: unknown): Error => {
  if (isListenError(error)) return new Error(listenFailure(config, error))
  const refusal = databaseRefusal(error)
  if (refusal !== undefined) return new Error(`the database refuses what a start needs: ${refusal}`, { cause: error })
  return error instanceof Error ? error : new Error(String(error))
}

const isListenError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && ['listen', 'bind', 'getaddrinfo'].includes((error as NodeJS.ErrnoException).syscall ?? '')

const LISTEN_FAILURES: Record<string, string> = {
  EADDRINUSE: 'another program listens there',
  EACCES: 'not permitted',
  EADDRNOTAVAIL: 'this machine has no such address',
  ENOTFOUND: 'this machine has no such address',
}

const listenFailure = ({ server: { host, port } }: Config, { code = '', message }: NodeJS.ErrnoException): string =>
  `cannot listen on ${host} port ${port}: ${LISTEN_FAILURES[code] ?? message}`

/**
 * Buffers of bodies and responses are outside of V8's heap but count against its growth limit. The heap is small, so a few
 * megabytes a second caused a full collection every second, on five threads. The flag lets the heap grow to four times its
 * size first; see docs/decisions/build-and-start.md. Must run after `onServing`: V8 rejects code cached under other flags.
 */
export function collectRarely(): void {
  setFlagsFromString('--heap-growing-percent=300')
}

export function watchForBugs(log: Log): void {
  process.on('unhandledRejection', (reason) => {
    log.observe({ message: 'unhandled rejection', attrs: { error: traceOf(reason) } })
  })
  process.on('uncaughtException', (error) => {
    log.observe({ message: 'uncaught exception', attrs: { error: traceOf(error) } })
    process.exit(1)
  })
}

const traceOf = (thrown: unknown): string =>
  thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)

export function forceExitAfter(seconds: number): void {
  setTimeout(() => process.exit(1), seconds * 1000).unref()
}
