export type LoopOptions = {
  /** Resolves to the milliseconds until the next step; undefined = `everyMs`. */
  step: () => Promise<number | undefined>
  /** The poll interval, because notifications may be missed. Infinity = only when poked. */
  everyMs: number
  /** Before the first step, unless poked earlier; default 0. */
  firstMs?: number
  /** The least time between a step, which took `tookMs`, and the next one, even when poked. */
  gapMs?: (tookMs: number) => number
  /** Called for the first failure in a row; the loop retries with growing delays. */
  onFailure?: (error: unknown) => void
}

export const clamp = (min: number, value: number, max: number): number => Math.min(Math.max(value, min), max)

const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 30_000

type StepWaiter = { resolve: () => void; reject: (error: unknown) => void }

/**
 * Runs a step on an interval, sooner when poked by a notification or by a write of this process, and never twice at
 * once.
 */
export class Loop {
  readonly #options: LoopOptions
  #poked = false
  #stopped = false
  #wake: (() => void) | undefined
  #pausing: NodeJS.Timeout | undefined
  #later: NodeJS.Timeout | undefined
  #waiters: StepWaiter[] = []
  readonly #ended: Promise<void>

  constructor(options: LoopOptions) {
    this.#options = options
    this.#ended = this.#run()
  }

  /** A poke during a step makes the next one follow at once. */
  poke(): void {
    this.#poked = true
    this.#wake?.()
  }

  /** Pokes after this time; further calls until then are merged. */
  pokeIn(ms: number): void {
    if (this.#stopped || this.#later !== undefined) return
    this.#later = setTimeout(() => {
      this.#later = undefined
      this.poke()
    }, ms).unref()
  }

  /** Resolves at the end of a step that began after this call; a step under way may have read older state. */
  next(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#stopped) return reject(new Error('stopped'))
      this.#waiters.push({ resolve, reject })
      // A waiting caller keeps the process alive.
      this.#pausing?.ref()
      this.poke()
    })
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#later)
    this.#wake?.()
    await this.#ended
  }

  async #run(): Promise<void> {
    const { step, everyMs, firstMs = 0, gapMs, onFailure } = this.#options
    let failures = 0
    if (firstMs > 0) await this.#pause(firstMs, true)
    while (!this.#stopped) {
      this.#poked = false
      const waiters = this.#waiters.splice(0)
      let wait = everyMs
      const beganAt = performance.now()
      try {
        wait = (await step()) ?? everyMs
        failures = 0
        for (const { resolve } of waiters) resolve()
      } catch (error) {
        if (failures++ === 0 && !this.#stopped) onFailure?.(error)
        wait = Math.min(everyMs, LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1))
        for (const { reject } of waiters) reject(error)
      }
      const endedAt = performance.now()
      if (wait > 0 && !this.#poked) await this.#pause(wait, true)
      await this.#pause(endedAt + (gapMs?.(endedAt - beganAt) ?? 0) - performance.now(), false)
    }
    for (const { reject } of this.#waiters.splice(0)) reject(new Error('stopped'))
  }

  #pause(ms: number, breakable: boolean): Promise<void> {
    if (ms <= 0 || this.#stopped) return Promise.resolve()
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(this.#pausing)
        this.#pausing = undefined
        this.#wake = undefined
        resolve()
      }
      if (Number.isFinite(ms)) this.#pausing = setTimeout(end, ms)
      if (this.#waiters.length === 0) this.#pausing?.unref()
      // A pause for the gap ends early only when the loop is stopped.
      this.#wake = breakable ? end : () => this.#stopped && end()
    })
  }
}
