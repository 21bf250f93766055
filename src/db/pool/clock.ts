import type { Clock } from '../../core/clock.ts'

/** What the rules of the pool know of time; tests let it pass themselves. `every` answers what to call to stop. */
export type SchedulerClock = Clock & { every(ms: number, run: () => void): () => void }
