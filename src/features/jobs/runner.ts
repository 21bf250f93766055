import { SYSTEM } from '../../core/identity.ts'
import type { JobHandler } from '../../core/job.ts'
import type { Db } from '../../db/db.ts'
import { GiveUp, type Item, type Queue, RetryIn } from '../../db/queue/queue.ts'
import { JobRows } from './job-rows.ts'
import { LOG_LINES, noteProgress } from './sql.ts'

const KIND = 'job'
const NOTE_EVERY_MS = 500
const LINE_CHARACTERS = 2_000
/** Longer than any job should run; frees the slot of a handler that never ends. */
const LONGEST_RUN_MS = 3_600_000

/** Seconds before the next attempt: 5, 10, 20, … at most five minutes, plus up to one for jitter. */
const backOff = (attempt: number): number => Math.min(5 * 2 ** (attempt - 1), 300) + Math.random()

type Deps = {
  db: Db
  queue: Queue
  config: { worker_concurrency: number; lease_duration: number }
  /** Called for each run, successful or not. */
  onRun: () => void
  longestRunMs?: number
}

/** Runs jobs in this process with the handlers of the features. */
export class Runner {
  readonly #deps: Deps
  #handlers: ReadonlyMap<string, JobHandler> = new Map()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  knows(type: string): boolean {
    return this.#handlers.has(type)
  }

  wake(): void {
    this.#deps.queue.wake(KIND)
  }

  work(handlers: Readonly<Record<string, JobHandler>>): void {
    this.#handlers = new Map(Object.entries(handlers))
    const { worker_concurrency: concurrency, lease_duration: leaseSeconds } = this.#deps.config
    this.#deps.queue.work(
      KIND,
      {
        concurrency,
        // One slot stays free for other types, so that hanging jobs of one type do not block the rest.
        perGroup: Math.max(1, concurrency - 1),
        leaseSeconds,
        retryDelays: ({ maxAttempts }, attempt) => (attempt < (maxAttempts ?? 1) ? backOff(attempt) : undefined),
        finishes: ({ group }) => this.#handlers.get(group)?.finishes ?? false,
        rows: new JobRows(),
      },
      (item, signal) => this.#run(item, signal),
    )
  }

  async #run(item: Item, signal: AbortSignal): Promise<void> {
    const { db, onRun, longestRunMs = LONGEST_RUN_MS } = this.#deps
    onRun()
    const handler = this.#handlers.get(item.group)
    if (!handler) throw new GiveUp(`no handler for job type: ${item.group}`)
    const notes = new Notes(db, item)
    const limit = new TimeLimit(signal, handler.longestMs ?? longestRunMs)
    try {
      await limit.race(
        handler({
          id: item.id,
          payload: item.payload as Readonly<Record<string, unknown>>,
          attempt: item.attempt,
          signal: limit.signal,
          log: (line) => notes.log(line),
          progress: (done) => notes.progress(done),
        }),
      )
    } catch (error) {
      // A peer's Retry-After may lengthen our delay, not shorten it.
      if (error instanceof RetryIn) throw new RetryIn(Math.max(error.seconds, backOff(item.attempt)), error.message)
      throw error
    } finally {
      limit.end()
      await notes.end()
    }
  }
}

/** Aborts when the queue aborts the run, or after the longest run. */
class TimeLimit {
  readonly #controller = new AbortController()
  readonly #outer: AbortSignal
  readonly #timer: NodeJS.Timeout
  #late: (error: Error) => void = () => {}

  constructor(outer: AbortSignal, ms: number) {
    this.#outer = outer
    outer.addEventListener('abort', this.#abort, { once: true })
    this.#timer = setTimeout(() => {
      this.#abort()
      this.#late(new Error('the job took too long'))
    }, ms).unref()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Rejects at the time limit, also if the handler ignores its signal. */
  race(work: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#late = reject
      work.then(resolve, reject)
    })
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#outer.removeEventListener('abort', this.#abort)
  }

  readonly #abort = (): void => this.#controller.abort()
}

/** Log lines and progress of a job, written at most twice a second. */
class Notes {
  readonly #db: Db
  readonly #item: Item
  #lines: string[] = []
  #progress: number | undefined
  #timer: NodeJS.Timeout | undefined
  #written: Promise<void> = Promise.resolve()

  constructor(db: Db, item: Item) {
    this.#db = db
    this.#item = item
  }

  log(line: string): void {
    this.#lines.push(line.replaceAll('\0', '').slice(0, LINE_CHARACTERS))
    if (this.#lines.length > LOG_LINES) this.#lines.shift()
    this.#soon()
  }

  progress(done: number): void {
    this.#progress = Math.min(Math.max(done, 0), 1)
    this.#soon()
  }

  async end(): Promise<void> {
    clearTimeout(this.#timer)
    this.#write()
    await this.#written
  }

  #soon(): void {
    this.#timer ??= setTimeout(() => this.#write(), NOTE_EVERY_MS).unref()
  }

  #write(): void {
    this.#timer = undefined
    const [lines, progress] = [this.#lines.splice(0), this.#progress]
    this.#progress = undefined
    if (lines.length === 0 && progress === undefined) return
    // Informational: a failed write does not fail the job.
    this.#written = this.#written
      .then(() => this.#db.run(SYSTEM, noteProgress(this.#item, lines, progress)))
      .then(
        () => undefined,
        () => undefined,
      )
  }
}
