export type Waker = {
  readonly stopped: boolean
  /** Resolves after `ms`, earlier when poked, and never less than the gap after the last time. */
  wait(ms: number): Promise<void>
  /** A poke while nobody waits makes the next wait short. */
  poke(): void
  stop(): void
}

/** The pause of a polling loop that can be cut short, however many pokes arrive. */
export function createWaker(gapMs: () => number): Waker {
  let poked = false
  let stopped = false
  let wakeUp: (() => void) | undefined
  let lastEnd = 0

  const pause = (ms: number, breakable: boolean): Promise<void> =>
    new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        wakeUp = undefined
        resolve()
      }
      const timer = setTimeout(end, ms)
      timer.unref()
      if (breakable) wakeUp = end
    })

  return {
    get stopped() {
      return stopped
    },
    async wait(ms) {
      if (ms > 0 && !poked && !stopped) await pause(ms, true)
      const gap = lastEnd + gapMs() - performance.now()
      if (gap > 0 && !stopped) await pause(gap, false)
      poked = false
      lastEnd = performance.now()
    },
    poke() {
      poked = true
      wakeUp?.()
    },
    stop() {
      stopped = true
      wakeUp?.()
    },
  }
}
