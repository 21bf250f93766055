import type { Observe } from '../../core/observe.ts'
import type { OnRefused } from './ceremony.ts'

const EVERY_MS = 60_000

/** Says why a passkey was refused, at most once a minute: a stranger can be refused any number of times. */
export function createRefusalLog(observe: Observe): OnRefused {
  let until = Number.NEGATIVE_INFINITY
  return (reason) => {
    if (performance.now() < until) return
    until = performance.now() + EVERY_MS
    observe({ message: 'passkey refused', attrs: { reason: reason.slice(0, 500) } })
  }
}
