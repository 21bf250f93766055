import type { JobHandler } from '../core/job.ts'
import type { Feature } from '../http/feature.ts'

/** Everything that can be queued and scheduled, by type: what features bring as jobs, and their cleanups. */
export function jobTypesOf(features: readonly Feature[]): Record<string, JobHandler> {
  const types: Record<string, JobHandler> = {}
  for (const { jobs = {}, cleanups = {} } of features) {
    for (const [type, handler] of [...Object.entries(jobs), ...Object.entries(cleanups).map(asJob)]) {
      if (types[type]) throw new Error(`two features bring the job type ${type}`)
      types[type] = handler
    }
  }
  return types
}

const asJob = ([type, cleanup]: [string, () => Promise<number>]): [string, JobHandler] => [
  type,
  async ({ log }) => log(`removed ${await cleanup()}`),
]
