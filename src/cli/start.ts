import { type App, startApp } from '../app.ts'
import { type Config, publicBaseUrl } from '../config/config.ts'
import { reasonOf } from '../core/errors.ts'
import { type DataLock, lockDataDir } from '../db/setup/embedded/lock.ts'
import { version } from '../version.ts'
import { type BannerFacts, banner } from './banner.ts'
import type { Context } from './command.ts'
import { createLog, type Log } from './log/log.ts'
import { readToken, removeToken, writeToken } from './token-file.ts'

/** What a detached start hears from the process it made. */
export type StartMessage = { ready: string } | { failed: string }

/** Runs the server until a signal ends it. */
export async function start(context: Context): Promise<number> {
  const { config, warnings } = context.config()
  const log = createLog(config.log)
  try {
    for (const message of warnings) log.observe({ level: 'warn', message })
    const stopping = stopSignal()
    const lock = config.database.url === '' ? undefined : await claim(config, log)
    const progress = context.json ? () => {} : context.print
    const app = await startApp(config, { observe: log.observe, logEntries: log.entries, progress })
    lock?.announce(app.url)
    const isOnlyOne = config.database.url === '' || lock !== undefined
    const endToken = await keepTokenFile(app, config, log, isOnlyOne)
    await announce(context, await facts(app, config))
    watchForBugs(log)
    await stopping
    forceExitAfter(config.server.shutdown_timeout + 10)
    await endToken()
    await app.close()
    lock?.release()
    log.flush()
    process.exit(0)
  } catch (error) {
    const failure = isListenError(error) ? new Error(listenFailure(config, error)) : error
    await tell({ failed: reasonOf(failure) })
    throw failure
  }
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

/** Resolves at the first SIGTERM or SIGINT; the second does not wait for anybody. */
function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    let isStopping = false
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (isStopping) process.exit(1)
        isStopping = true
        resolve()
      })
    }
  })
}

/** Nodes of an external database may share a data directory; `svc stop` then knows the first of them. */
async function claim(config: Config, log: Log): Promise<DataLock | undefined> {
  try {
    return await lockDataDir(config.data_dir)
  } catch (error) {
    log.observe({ level: 'warn', message: 'no pid file', attrs: { error: reasonOf(error) } })
    return undefined
  }
}

/**
 * The file's token is replaced long before it expires. Returns what ends the last one, and whichever `svc` may have
 * put in its place, unless another server lives in the same directory.
 */
async function keepTokenFile(app: App, config: Config, log: Log, isOnlyOne: boolean): Promise<() => Promise<void>> {
  let current: string | undefined
  const renew = async () => {
    try {
      const token = await app.issueAdminToken()
      if (token === undefined) return
      writeToken(config.data_dir, token)
      current = token
    } catch (error) {
      log.observe({ level: 'warn', message: 'admin token file not written', attrs: { error: reasonOf(error) } })
    }
  }
  await renew()
  const everyMs = Math.min((config.admin.token_duration * 1000) / 2, 86_400_000)
  const timer = setInterval(() => void renew(), everyMs).unref()
  return async () => {
    clearInterval(timer)
    const last = isOnlyOne ? readToken(config.data_dir) : current
    if (last === undefined) return
    removeToken(config.data_dir, last)
    await app.endAdminToken(last).catch(() => {})
  }
}

async function facts(app: App, config: Config): Promise<BannerFacts> {
  const { serverVersion, capabilities, warnings } = await app.describe()
  const port = Number(new URL(app.url).port || 80)
  return {
    appVersion: version,
    url: publicBaseUrl(config, port),
    database: `PostgreSQL ${serverVersion} ${placeOf(config)}`,
    capabilities,
    warnings,
    adminPassword: app.generatedPassword,
  }
}

const placeOf = ({ database, data_dir }: Config): string => {
  if (database.url === '') return `embedded in ${data_dir}`
  return URL.canParse(database.url) ? `at ${new URL(database.url).host || 'a local socket'}` : 'as configured'
}

async function announce(context: Context, found: BannerFacts): Promise<void> {
  const text = context.json ? JSON.stringify(found) : banner(found)
  // The log file of a detached server must not hold the password.
  if (process.send) await tell({ ready: text })
  else context.print(text)
}

function tell(word: StartMessage): Promise<void> {
  return new Promise((resolve) => {
    if (!process.send) return resolve()
    process.once('disconnect', resolve)
    process.send(word)
    process.disconnect()
  })
}

function watchForBugs(log: Log): void {
  process.on('unhandledRejection', (reason) => {
    log.observe({ level: 'error', message: 'unhandled rejection', attrs: { error: traceOf(reason) } })
  })
  process.on('uncaughtException', (error) => {
    log.observe({ level: 'error', message: 'uncaught exception', attrs: { error: traceOf(error) } })
    process.exit(1)
  })
}

const traceOf = (thrown: unknown): string =>
  thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)

function forceExitAfter(seconds: number): void {
  setTimeout(() => process.exit(1), seconds * 1000).unref()
}
