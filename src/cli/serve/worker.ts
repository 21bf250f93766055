import { startApp } from '../../app.ts'
import type { Peers } from '../../core/peers.ts'
import type { Context } from '../command/command.ts'
import { createLog } from '../log/log.ts'
import type { Assignment, Ready } from './cluster.ts'
import { limitsOf } from './limits.ts'
import { Peer } from './peer.ts'
import { collectRarely, explainStart, factsOf, forceExitAfter, watchForBugs } from './single.ts'

/** Runs one worker process of `svc start --workers N` until its parent stops it. */
export async function serveAsWorker(context: Context): Promise<number> {
  const { config } = context.config()
  const log = createLog(config.log)
  const parent = new Peer(process)
  // Ignored, because the parent stops its workers; a terminal signals all processes.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})
  watchForBugs(log)
  const { workers, embeddedUrl } = (await parent.request('assignment')) as Assignment
  const askAllWorkers: Peers = (kind, own) => {
    parent.onRequest(`own ${kind}`, own)
    return async () => (await parent.request('all workers', kind)) as ReturnType<typeof own>[]
  }
  try {
    const progress = context.json ? () => {} : context.print
    const app = await startApp(limitsOf(config, workers), {
      observe: log.observe,
      logEntries: log.entries,
      progress,
      askAllWorkers,
      embeddedUrl,
    })
    parent.onRequest('issue admin token', () => app.issueAdminToken())
    parent.onRequest('end admin token', (token) => app.endAdminToken(String(token)))
    parent.onRequest('stop', () => {
      forceExitAfter(config.server.shutdown_timeout + 10)
      void app.close().then(() => {
        log.flush()
        process.exit(0)
      })
    })
    const ready: Ready = { url: app.url, facts: await factsOf(app, config) }
    await parent.request('ready', ready)
    context.onServing()
    collectRarely()
  } catch (error) {
    await parent.request('failed', explainStart(config, error).message)
    process.exit(1)
  }
  return new Promise(() => {})
}
