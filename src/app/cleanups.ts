import type { Queue } from '../db/queue/queue.ts'

/** Cleanups are job types: they run when somebody queues them. */
export function workCleanups(queue: Queue, cleanups: Readonly<Record<string, () => Promise<number>>>): void {
  for (const [type, cleanup] of Object.entries(cleanups)) {
    queue.work(type, { concurrency: 1, leaseSeconds: 60, retryDelays: [5, 60] }, async () => void (await cleanup()))
  }
}
