import { CronTimes } from '../../../../src/features/jobs/cron.ts'

/** When the server runs it next, by the server's own reckoning. Throws what the server would answer. */
export function nextTimes(expression: string, zone: string, count: number, from = new Date()): Date[] {
  const times = new CronTimes(expression, zone)
  const found: Date[] = []
  while (found.length < count) {
    const next = times.next(found.at(-1) ?? from)
    if (!next) break
    found.push(next)
  }
  return found
}
