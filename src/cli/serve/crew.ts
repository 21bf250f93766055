import cluster, { type Worker } from 'node:cluster'
import type { Readable, Writable } from 'node:stream'
import type { Config } from '../../config/config.ts'
import { sleep } from '../../core/clock.ts'
import { reasonOf } from '../../core/errors.ts'
import type { Observe } from '../../core/observe.ts'
import { type Embedded, startEmbedded } from '../../db/setup/embedded/embedded.ts'
import type { BannerFacts } from '../banner.ts'
import type { Server } from './alone.ts'
import { Peer } from './peer.ts'

/** What a member is told before it starts. */
export type Assignment = { members: number; embeddedUrl: string | undefined }
/** What a member says when it serves. */
export type Ready = { url: string; facts: BannerFacts }

type Member = { worker: Worker; peer: Peer; isServing: boolean; ended: Promise<void> }

/** One that lived shorter than this failed to work, and its successor waits. */
const SHORT_LIFE_MS = 10_000
const MAX_DELAY_MS = 10_000
/** For the answer of a member. */
const PATIENCE_MS = 5_000

/** Without a word of its own. */
class Ended extends Error {}

/** Several processes on one port; see docs/decisions/0026-workers.md. */
export class Crew implements Server {
  readonly #config: Config
  readonly #observe: Observe
  readonly #embedded: Embedded | undefined
  readonly #members = new Set<Member>()
  #first: Ready | undefined
  #shortLives = 0
  #isStopping = false

  private constructor(config: Config, observe: Observe, embedded: Embedded | undefined) {
    this.#config = config
    this.#observe = observe
    this.#embedded = embedded
  }

  /** The first member starts alone: it migrates the database and settles the password for all of them. */
  static async start(
    config: Config,
    { argv, observe, progress }: { argv: readonly string[]; observe: Observe; progress: (line: string) => void },
  ): Promise<Crew> {
    const { url, embedded_bin_dir: binDir } = config.database
    const embedded =
      url === ''
        ? await startEmbedded({ dataDir: config.data_dir, ...(binDir && { binDir }), log: progress })
        : undefined
    cluster.setupPrimary({ exec: process.argv[1] ?? '', args: [...argv], silent: true })
    const crew = new Crew(config, observe, embedded)
    try {
      crew.#first = await crew.#hire()
      await Promise.all(Array.from({ length: config.server.workers - 1 }, () => crew.#hireAnother()))
    } catch (error) {
      await crew.close()
      throw error
    }
    embedded?.lock.announce(crew.url)
    return crew
  }

  get url(): string {
    return this.#first?.url ?? ''
  }

  async facts(): Promise<BannerFacts> {
    if (!this.#first) throw new Error('no worker has started')
    return this.#first.facts
  }

  async issueAdminToken(): Promise<string | undefined> {
    return (await this.#anyone('issue admin token')) as string | undefined
  }

  async endAdminToken(token: string): Promise<void> {
    await this.#anyone('end admin token', token)
  }

  /**
   * One after another: while one lets its requests end, the others take what comes. Nobody waits longer than its share
   * of the time for the one before.
   */
  async close(): Promise<void> {
    this.#isStopping = true
    const shareMs = (this.#config.server.shutdown_timeout * 1000) / this.#config.server.workers
    for (const { peer, ended } of [...this.#members]) {
      peer.ask('stop').catch(() => {})
      await Promise.race([ended, sleep(shareMs)])
    }
    const late = sleep((this.#config.server.shutdown_timeout + 5) * 1000)
    await Promise.race([late, Promise.all([...this.#members].map(({ ended }) => ended))])
    for (const { worker } of this.#members) worker.process.kill('SIGKILL')
    await this.#embedded?.stop()
  }

  /** Resolves when a new member serves. */
  #hire(): Promise<Ready> {
    const worker = cluster.fork()
    const peer = new Peer(worker, PATIENCE_MS)
    const hiredAt = performance.now()
    const { stdout, stderr } = worker.process
    if (stdout) forwardLines(stdout, process.stdout)
    if (stderr) forwardLines(stderr, process.stderr)
    const assignment: Assignment = { members: this.#config.server.workers, embeddedUrl: this.#embedded?.url }
    peer.answer('assignment', () => assignment)
    peer.answer('everyone', (kind) => this.#everyone(String(kind)))
    return new Promise((resolve, reject) => {
      const ended = new Promise<void>((left) => {
        worker.once('exit', (code, signal) => {
          this.#members.delete(member)
          peer.gone()
          left()
          reject(new Ended('a worker ended at its start'))
          if (member.isServing) this.#replace(worker, performance.now() - hiredAt, signal ?? `exit code ${code}`)
        })
      })
      const member: Member = { worker, peer, isServing: false, ended }
      this.#members.add(member)
      peer.answer('failed', (reason) => reject(new Error(String(reason))))
      peer.answer('ready', (ready) => {
        member.isServing = true
        // It was still starting when the others were told.
        if (this.#isStopping) peer.ask('stop').catch(() => {})
        resolve(ready as Ready)
      })
    })
  }

  #replace(worker: Worker, livedMs: number, why: string): void {
    if (this.#isStopping) return
    this.#shortLives = livedMs < SHORT_LIFE_MS ? this.#shortLives + 1 : 0
    const delayMs = this.#delayMs
    this.#observe({
      level: 'error',
      message: 'a worker ended and is replaced',
      attrs: { pid: worker.process.pid, why, delayMs },
    })
    setTimeout(() => this.#hireAgain(), delayMs)
  }

  /** One that says why it cannot start ends the start of all; one that was killed meanwhile is replaced as at any time. */
  async #hireAnother(): Promise<void> {
    await this.#hire().catch((error: unknown) => {
      if (!(error instanceof Ended)) throw error
      this.#hireLater(error)
    })
  }

  #hireAgain(): void {
    if (this.#isStopping) return
    this.#hire().catch((error: unknown) => this.#hireLater(error))
  }

  #hireLater(error: unknown): void {
    this.#observe({ level: 'error', message: 'a worker did not start', attrs: { error: reasonOf(error) } })
    this.#shortLives++
    setTimeout(() => this.#hireAgain(), this.#delayMs)
  }

  get #delayMs(): number {
    return this.#shortLives === 0 ? 0 : Math.min(100 * 2 ** this.#shortLives, MAX_DELAY_MS)
  }

  get #serving(): Member[] {
    return [...this.#members].filter(({ isServing }) => isServing)
  }

  /** One that is just ending has nothing to say. */
  async #everyone(kind: string): Promise<unknown[]> {
    const answers = await Promise.allSettled(this.#serving.map(({ peer }) => peer.ask(`own ${kind}`)))
    return answers.flatMap((answer) =>
      answer.status === 'fulfilled' && answer.value !== undefined ? [answer.value] : [],
    )
  }

  async #anyone(kind: string, about?: unknown): Promise<unknown> {
    for (const { peer } of this.#serving) {
      const answer = await peer.ask(kind, about).catch(() => undefined)
      if (answer !== undefined) return answer
    }
    return undefined
  }
}

/** Whole lines, so that those of several processes do not run into each other. */
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
