import type { Observation, Observe } from '../core/observe.ts'

export type LogEntry = { time: string; level: string; message: string; attrs?: Observation['attrs'] }
export type Ring = { sink: Observe; entries(): LogEntry[] }

type Kept = { at: number; observation: Observation }

/** The last `size` observations, overwritten in a circle: keeping one costs no allocation beyond itself. */
export function createRing(size: number, now: () => number = Date.now): Ring {
  const kept: Kept[] = []
  let next = 0
  return {
    sink(observation) {
      if (size === 0) return
      kept[next] = { at: now(), observation }
      next = (next + 1) % size
    },
    entries: () =>
      [...kept.slice(next), ...kept.slice(0, next)].map(({ at, observation: { level, message, attrs } }) => ({
        time: new Date(at).toISOString(),
        level: level.toUpperCase(),
        message,
        ...(attrs && { attrs }),
      })),
  }
}
