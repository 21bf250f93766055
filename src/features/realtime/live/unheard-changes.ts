import { isTransient } from '../visibility/table-changes.ts'
import type { LiveGroup } from './group.ts'

/** A server that stops does not wait for it. */
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms).unref())

type Deps = {
  /** What the queries in its policies answer now. */
  read: (group: LiveGroup) => Promise<{ readonly values: string[][] | undefined; readonly ms: number }>
  /** They answer otherwise than they did. */
  onChange: (group: LiveGroup) => void
  onFailure: (error: unknown) => void
}

const LEAST_AGE_MS = 5_000
/** All this takes a part of the time, however many lists there are. */
const PAUSE = { times: 5, leastMs: 10, afterFailureMs: 1_000 }

/**
 * Lists whose rows are known by values that a table decides which is not watched: who was made a member by SQL is not in the log.
 * One after the other their values are looked up again.
 */
export class UnheardChanges {
  readonly #deps: Deps
  /** By age. */
  readonly #seenAt = new Map<LiveGroup, number>()
  #running: Promise<void> | undefined
  #isStopped = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Its values are those of now. */
  add(group: LiveGroup): void {
    this.remove(group)
    this.#seenAt.set(group, performance.now())
    this.#running ??= this.#run()
  }

  remove(group: LiveGroup): void {
    this.#seenAt.delete(group)
  }

  stop(): void {
    this.#isStopped = true
    this.#seenAt.clear()
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      const [oldest] = this.#seenAt
      if (!oldest) break
      const [group, seenAt] = oldest
      const age = performance.now() - seenAt
      if (age < LEAST_AGE_MS) await sleep(LEAST_AGE_MS - age)
      else await sleep(await this.#look(group))
    }
    this.#running = undefined
  }

  /** Answers how long to wait until the next. */
  async #look(group: LiveGroup): Promise<number> {
    const { values: before } = group
    this.#seenAt.delete(group)
    try {
      const { values, ms } = await this.#deps.read(group)
      // Read again meanwhile, or gone.
      if (this.#seenAt.has(group) || group.values !== before || group.isIdle) return PAUSE.leastMs
      if (isEqual(values, before)) this.#seenAt.set(group, performance.now())
      else this.#deps.onChange(group)
      return Math.max(PAUSE.leastMs, ms * PAUSE.times)
    } catch (error) {
      if (!isTransient(error) && !this.#isStopped) this.#deps.onFailure(error)
      this.#deps.onChange(group)
      return PAUSE.afterFailureMs
    }
  }
}

const isEqual = (one: LiveGroup['values'], other: LiveGroup['values']): boolean =>
  JSON.stringify(one?.map((values) => [...values].sort())) ===
  JSON.stringify(other?.map((values) => [...values].sort()))
