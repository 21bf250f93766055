/** Of its time; to no longer be busy takes a little less, so that the verdict does not flicker. */
const BUSY = 0.9
const STILL_BUSY = 0.8
/** How much each look counts beside those before it. */
const WEIGHT = 0.1

/** Whether this process keeps a core busy by itself, over the last ten looks or so. */
export class OwnLoad {
  #last = performance.eventLoopUtilization()
  #share = 0
  isHigh = false

  look(): void {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, this.#last)
    this.#last = now
    this.#share += (utilization - this.#share) * WEIGHT
    this.isHigh = this.#share > (this.isHigh ? STILL_BUSY : BUSY)
  }
}
