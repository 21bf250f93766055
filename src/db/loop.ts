export type LoopOptions = {
  /** One look. Answers in how many milliseconds it wants to be called again; nothing = `everyMs`. */
  step: () => Promise<number | undefined>
  /** The safety net: notifications may be missed. Infinity = only when poked. */
  everyMs: number
  /** Before the first look, unless poked earlier; nothing = at once. */
  firstMs?: number
  /** The least time between a step, which took `tookMs`, and the next one, however many pokes arrive. */
  gapMs?: (tookMs: number) => number
  /** Told of the first failure in a row; the loop goes on, at first soon and then ever later. */
  onFailure?: (error: unknown) => void
}

/** For gaps that follow how long something takes. */
export const clamp = (least: number, value: number, most: number): number => Math.min(Math.max(value, least), most)

const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 30_000

type StepWaiter = { resolve: () => void; reject: (error: unknown) => void }

/**
 * What follows the database: a step that runs on a poll, sooner when poked by a notification or by an own write, and
 * never twice at once.
 */
export class Loop {
  readonly #options: LoopOptions
  #poked = false
  #stopped = false
  #wake: (() => void) | undefined
  #pausing: NodeJS.Timeout | undefined
  #later: NodeJS.Timeout | undefined
  #waiting: StepWaiter[] = []
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

  /** A poke that waits for others: all within this time are one. */
  pokeIn(ms: number): void {
    if (this.#stopped || this.#later !== undefined) return
    this.#later = setTimeout(() => {
      this.#later = undefined
      this.poke()
    }, ms).unref()
  }

  /** Resolves when a step is over that began after this call: one that is under way may have missed what is asked for. */
  next(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#stopped) return reject(new Error('stopped'))
      this.#waiting.push({ resolve, reject })
      // Whoever waits for an answer keeps the process alive until it is there.
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
      const waiting = this.#waiting.splice(0)
      let wait = everyMs
      const beganAt = performance.now()
      try {
        wait = (await step()) ?? everyMs
        failures = 0
        for (const { resolve } of waiting) resolve()
      } catch (error) {
        if (failures++ === 0 && !this.#stopped) onFailure?.(error)
        wait = Math.min(everyMs, LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** (failures - 1))
        for (const { reject } of waiting) reject(error)
      }
      const endedAt = performance.now()
      if (wait > 0 && !this.#poked) await this.#pause(wait, true)
      await this.#pause(endedAt + (gapMs?.(endedAt - beganAt) ?? 0) - performance.now(), false)
    }
    for (const { reject } of this.#waiting.splice(0)) reject(new Error('stopped'))
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
      if (this.#waiting.length === 0) this.#pausing?.unref()
      // A pause for the gap ends early only when the loop is stopped.
      this.#wake = breakable ? end : () => this.#stopped && end()
    })
  }
}
