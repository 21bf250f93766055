import nodeCluster, { type Worker as Forked } from 'node:cluster'
import type { Readable, Writable } from 'node:stream'
import type { Config } from '../../config/config.ts'
import { sleep } from '../../core/clock.ts'
import { reasonOf } from '../../core/errors.ts'
import type { Observe } from '../../core/observe.ts'
import { openConnection } from '../../db/protocol/driver.ts'
import { type Embedded, startEmbedded } from '../../db/setup/embedded/embedded.ts'
import type { BannerFacts } from './banner.ts'
import { requireConnections } from './limits.ts'
import { Peer } from './peer.ts'
import type { Server } from './single.ts'

/** Sent to a worker before it starts. */
export type Assignment = { workers: number; embeddedUrl: string | undefined }
/** Sent by a worker when it serves. */
export type Ready = { url: string; facts: BannerFacts }

type Worker = { forked: Forked; peer: Peer; isServing: boolean; ended: Promise<void> }

/** A worker that lived shorter than this is replaced after a delay. */
const SHORT_LIFE_MS = 10_000
const MAX_DELAY_MS = 10_000
const REQUEST_TIMEOUT_MS = 5_000

/** A worker exited without reporting a reason. */
class WorkerExited extends Error {}

/** Several processes on one port; see docs/decisions/workers.md. */
export class Cluster implements Server {
  readonly #config: Config
  readonly #observe: Observe
  readonly #embedded: Embedded | undefined
  readonly #workers = new Set<Worker>()
  #first: Ready | undefined
  #shortLives = 0
  #isStopping = false

  private constructor(config: Config, observe: Observe, embedded: Embedded | undefined) {
    this.#config = config
    this.#observe = observe
    this.#embedded = embedded
  }

  /** The first worker starts alone, because it migrates the database and sets the admin password. */
  static async start(
    config: Config,
    { argv, observe, progress }: { argv: readonly string[]; observe: Observe; progress: (line: string) => void },
  ): Promise<Cluster> {
    const { url, embedded_bin_dir: binDir } = config.database
    const embedded = url === '' ? await startEmbedded({ dataDir: config.data_dir, binDir, log: progress }) : undefined
    nodeCluster.setupPrimary({ exec: process.argv[1] ?? '', args: [...argv], silent: true })
    const server = new Cluster(config, observe, embedded)
    try {
      if (embedded) requireConnections(config.server.workers, await maxConnections(embedded.url))
      server.#first = await server.#startWorker()
      await Promise.all(Array.from({ length: config.server.workers - 1 }, () => server.#startAnother()))
    } catch (error) {
      await server.close()
      throw error
    }
    embedded?.lock.announce(server.url)
    return server
  }

  get url(): string {
    return this.#first?.url ?? ''
  }

  async facts(): Promise<BannerFacts> {
    if (!this.#first) throw new Error('no worker has started')
    return this.#first.facts
  }

  async issueAdminToken(): Promise<string | undefined> {
    return (await this.#requestAny('issue admin token')) as string | undefined
  }

  async endAdminToken(token: string): Promise<void> {
    await this.#requestAny('end admin token', token)
  }

  /**
   * Stops workers one after another: while one drains, the remaining ones accept requests. Each drain delays the next by at
   * most its share of the shutdown time.
   */
  async close(): Promise<void> {
    this.#isStopping = true
    const shareMs = (this.#config.server.shutdown_timeout * 1000) / this.#config.server.workers
    for (const { peer, ended } of [...this.#workers]) {
      peer.request('stop').catch(() => {})
      await Promise.race([ended, sleep(shareMs)])
    }
    const late = sleep((this.#config.server.shutdown_timeout + 5) * 1000)
    await Promise.race([late, Promise.all([...this.#workers].map(({ ended }) => ended))])
    for (const { forked } of this.#workers) forked.process.kill('SIGKILL')
    await this.#embedded?.stop()
  }

  /** Resolves when a new worker serves. */
  #startWorker(): Promise<Ready> {
    const forked = nodeCluster.fork()
    const peer = new Peer(forked, REQUEST_TIMEOUT_MS)
    const startedAt = performance.now()
    const { stdout, stderr } = forked.process
    if (stdout) forwardLines(stdout, process.stdout)
    if (stderr) forwardLines(stderr, process.stderr)
    const assignment: Assignment = { workers: this.#config.server.workers, embeddedUrl: this.#embedded?.url }
    peer.onRequest('assignment', () => assignment)
    peer.onRequest('all workers', (kind) => this.#requestAll(String(kind)))
    return new Promise((resolve, reject) => {
      const ended = new Promise<void>((left) => {
        forked.once('exit', (code, signal) => {
          this.#workers.delete(worker)
          peer.gone()
          left()
          reject(new WorkerExited('a worker ended at its start'))
          if (worker.isServing)
            this.#replace(forked.process.pid, performance.now() - startedAt, signal ?? `exit code ${code}`)
        })
      })
      const worker: Worker = { forked, peer, isServing: false, ended }
      this.#workers.add(worker)
      peer.onRequest('failed', (reason) => reject(new Error(String(reason))))
      peer.onRequest('ready', (ready) => {
        worker.isServing = true
        // The cluster was stopped while this worker was starting.
        if (this.#isStopping) peer.request('stop').catch(() => {})
        resolve(ready as Ready)
      })
    })
  }

  #replace(pid: number | undefined, livedMs: number, why: string): void {
    if (this.#isStopping) return
    this.#shortLives = livedMs < SHORT_LIFE_MS ? this.#shortLives + 1 : 0
    const delayMs = this.#delayMs
    this.#observe({
      message: 'a worker ended and is replaced',
      attrs: { pid, why, delayMs },
    })
    setTimeout(() => this.#startAgain(), delayMs)
  }

  /** A worker that reports a reason fails the whole start; one that was killed is replaced. */
  async #startAnother(): Promise<void> {
    await this.#startWorker().catch((error: unknown) => {
      if (!(error instanceof WorkerExited)) throw error
      this.#startLater(error)
    })
  }

  #startAgain(): void {
    if (this.#isStopping) return
    this.#startWorker().catch((error: unknown) => this.#startLater(error))
  }

  #startLater(error: unknown): void {
    this.#observe({ message: 'a worker did not start', attrs: { error: reasonOf(error) } })
    this.#shortLives++
    setTimeout(() => this.#startAgain(), this.#delayMs)
  }

  get #delayMs(): number {
    return this.#shortLives === 0 ? 0 : Math.min(100 * 2 ** this.#shortLives, MAX_DELAY_MS)
  }

  get #serving(): Worker[] {
    return [...this.#workers].filter(({ isServing }) => isServing)
  }

  /** Skips workers that do not respond because they are exiting. */
  async #requestAll(kind: string): Promise<unknown[]> {
    const answers = await Promise.allSettled(this.#serving.map(({ peer }) => peer.request(`own ${kind}`)))
    return answers.flatMap((answer) =>
      answer.status === 'fulfilled' && answer.value !== undefined ? [answer.value] : [],
    )
  }

  async #requestAny(kind: string, about?: unknown): Promise<unknown> {
    for (const { peer } of this.#serving) {
      const answer = await peer.request(kind, about).catch(() => undefined)
      if (answer !== undefined) return answer
    }
    return undefined
  }
}

async function maxConnections(url: string): Promise<number> {
  const client = await openConnection({ url })
  const { rows } = await client.query<{ max_connections: string }>('show max_connections')
  await client.end()
  return Number(rows[0]?.max_connections)
}

/** Forwards whole lines, so that lines of several processes do not mix. */
function forwardLines(from: Readable, to: Writable): void {
  let rest = ''
  from.setEncoding('utf8')
  from.on('data', (chunk: string) => {
    const end = chunk.lastIndexOf('\n') + 1
    const lines = rest + chunk.slice(0, end)
    rest = end === 0 ? rest + chunk : chunk.slice(end)
    if (end === 0 || to.write(lines)) return
    from.pause()
    to.once('drain', () => from.resume())
  })
}
