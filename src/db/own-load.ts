/** Of a core; to no longer be busy takes a little less, so that the verdict does not flicker. */
const BUSY = 0.75
const STILL_BUSY = 0.65
/** How much each look counts beside those before it. */
const WEIGHT = 0.1

const processorMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** Whether this process keeps a core busy by itself, over the last ten looks or so. */
export class OwnLoad {
  readonly #spentMs: () => number
  #spent: number
  #at = performance.now()
  #share = 0
  isHigh = false

  /** `spentMs` tells the processor time of the process. */
  constructor(spentMs: () => number = processorMs) {
    this.#spentMs = spentMs
    this.#spent = spentMs()
  }

  look(): void {
    const [at, spent] = [performance.now(), this.#spentMs()]
    if (at > this.#at) this.#share += ((spent - this.#spent) / (at - this.#at) - this.#share) * WEIGHT
    this.#at = at
    this.#spent = spent
    this.isHigh = this.#share > (this.isHigh ? STILL_BUSY : BUSY)
  }
}
