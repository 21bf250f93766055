import type { Change } from '../../db/changes/log.ts'
import type { Channel } from './channel.ts'

export type Batch = {
  readonly seq: number
  readonly changes: readonly Change[]
  readonly channels: ReadonlySet<Channel>
}

/** What is judged together: more would be held as text, as rows and as frames at once. */
const ROUND_BYTES = 4 * 1024 * 1024
const MAX_PAUSE_MS = 150

const bytesOf = (changes: readonly Change[]): number =>
  changes.reduce((sum, { record }) => sum + 200 + (record?.length ?? 0), 0)

/**
 * Batches that wait for the database's verdict, in their order. What arrives during one round of checks is judged together
 * in the next: the slower the checks, the larger the rounds.
 */
export class Checks {
  readonly #judge: (round: readonly Batch[]) => Promise<void>
  readonly #idle: () => void
  readonly #queue: { batch: Batch; bytes: number }[] = []
  #waiting = 0
  #running: Promise<void> | undefined
  #stopped = false

  constructor(judge: (round: readonly Batch[]) => Promise<void>, idle: () => void = () => {}) {
    this.#judge = judge
    this.#idle = idle
  }

  /** Bytes of the changes that wait. */
  get waiting(): number {
    return this.#waiting
  }

  /** Resolves when nothing waits any more; undefined when nothing does. */
  get running(): Promise<void> | undefined {
    return this.#running
  }

  push(batch: Batch): void {
    const bytes = bytesOf(batch.changes)
    for (const channel of batch.channels) channel.pending++
    this.#queue.push({ batch, bytes })
    this.#waiting += bytes
    this.#running ??= this.#run()
  }

  stop(): void {
    this.#stopped = true
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0 && !this.#stopped) {
      const startedAt = performance.now()
      const round = this.#take()
      await this.#judge(round)
      for (const { channels } of round) for (const channel of channels) channel.pending--
      // A round costs the same per identity for one change as for ten: dear rounds are made less often.
      const pause = Math.min(MAX_PAUSE_MS, (performance.now() - startedAt) / 2)
      if (pause > 5) await new Promise((resolve) => setTimeout(resolve, pause).unref())
    }
    this.#running = undefined
    this.#idle()
  }

  #take(): Batch[] {
    const round: Batch[] = []
    for (let taken = 0; this.#queue.length > 0 && taken < ROUND_BYTES; ) {
      const next = this.#queue.shift()
      if (!next) break
      taken += next.bytes
      this.#waiting -= next.bytes
      round.push(next.batch)
    }
    return round
  }
}
