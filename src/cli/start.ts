import cluster from 'node:cluster'
import type { Config } from '../config/config.ts'
import { reasonOf } from '../core/errors.ts'
import { operatorWarning } from '../core/observe.ts'
import { type DataLock, lockDataDir } from '../db/setup/embedded/lock.ts'
import type { Context } from './command/command.ts'
import { readToken, removeToken, writeToken } from './command/token-file.ts'
import { createLog, type Log } from './log/log.ts'
import { type BannerFacts, banner } from './serve/banner.ts'
import { Cluster } from './serve/cluster.ts'
import { raiseSessionShare } from './serve/session-share.ts'
import { collectRarely, explainStart, forceExitAfter, type Server, startSingle, watchForBugs } from './serve/single.ts'
import { serveAsWorker } from './serve/worker.ts'

/** Sent by a detached server to the process that started it. */
export type StartMessage = { ready: string } | { failed: string }

/** Runs the server until a signal ends it. */
export async function start(context: Context): Promise<number> {
  if (cluster.isWorker) return serveAsWorker(context)
  const { config, warnings } = context.config()
  const log = createLog(config.log)
  raiseSessionShare(config.database.url)
  try {
    for (const warning of warnings) log.observe(operatorWarning(warning))
    const stopping = stopSignal(process.send !== undefined)
    const lock = config.database.url === '' ? undefined : await tryLock(config, log)
    const progress = context.json ? () => {} : context.print
    const { workers, shutdown_timeout: drainSeconds } = config.server
    const server =
      workers > 1
        ? await Cluster.start(config, { argv: context.argv, observe: log.observe, progress })
        : await startSingle(config, { log, progress })
    lock?.announce(server.url)
    const isOnlyOne = config.database.url === '' || lock !== undefined
    const endToken = await keepTokenFile(server, config, log, isOnlyOne)
    await announce(context, await server.facts())
    watchForBugs(log)
    if (workers === 1) context.onServing()
    collectRarely()
    await stopping
    // Workers drain one after another: the last starts late and still gets the whole drain time.
    forceExitAfter((workers > 1 ? 2 * drainSeconds : drainSeconds) + 10)
    await endToken()
    await server.close()
    lock?.release()
    log.flush()
    process.exit(0)
  } catch (error) {
    const failure = explainStart(config, error)
    await notifyParent({ failed: reasonOf(failure) })
    throw failure
  }
}

/**
 * Resolves at the first SIGTERM, SIGINT or SIGHUP; the second of the first two exits at once. A terminal that closes sends
 * SIGHUP, often more than once; a detached server ignores it.
 */
function stopSignal(isDetached: boolean): Promise<void> {
  return new Promise((resolve) => {
    process.on('SIGHUP', isDetached ? () => {} : resolve)
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

/** Nodes of an external database may share a data directory; only the first gets the lock and can be stopped by `svc stop`. */
async function tryLock(config: Config, log: Log): Promise<DataLock | undefined> {
  try {
    return await lockDataDir(config.data_dir)
  } catch (error) {
    log.observe({ message: 'no pid file', attrs: { error: reasonOf(error) } })
    return undefined
  }
}

/**
 * Writes an admin token to the file and renews it before it expires. Returns a function that ends the last token, or with
 * `isOnlyOne` the one in the file, which `svc` may have replaced.
 */
async function keepTokenFile(
  server: Server,
  config: Config,
  log: Log,
  isOnlyOne: boolean,
): Promise<() => Promise<void>> {
  let current: string | undefined
  const renew = async () => {
    try {
      const token = await server.issueAdminToken()
      if (token === undefined) return
      writeToken(config.data_dir, token)
      current = token
    } catch (error) {
      log.observe({ message: 'admin token file not written', attrs: { error: reasonOf(error) } })
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
    await server.endAdminToken(last).catch(() => {})
  }
}

async function announce(context: Context, facts: BannerFacts): Promise<void> {
  const text = context.json ? JSON.stringify(facts) : banner(facts)
  // Not printed when detached, because the log file must not contain the password.
  if (process.send) await notifyParent({ ready: text })
  else context.print(text)
}

function notifyParent(message: StartMessage): Promise<void> {
  return new Promise((resolve) => {
    if (!process.send) return resolve()
    process.once('disconnect', resolve)
    process.send(message)
    process.disconnect()
  })
}
