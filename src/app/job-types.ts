import type { JobHandler } from '../core/job.ts'
import type { Feature } from '../http/feature.ts'

type Cleanups = Readonly<Record<string, () => Promise<number>>>

/** All job handlers by type: the cleanups and the jobs of features. */
export function jobTypesOf(features: readonly Feature[], cleanups: Cleanups): Record<string, JobHandler> {
  const types: Record<string, JobHandler> = {}
  for (const [type, handler] of features.flatMap(({ jobs = {} }) => Object.entries(jobs))) {
    if (types[type]) throw new Error(`two features bring the job type ${type}`)
    types[type] = handler
  }
  // A feature's job replaces the cleanup of the same name, because it takes options.
  return { ...Object.fromEntries(Object.entries(cleanups).map(asJob)), ...types }
}

const asJob = ([type, cleanup]: [string, () => Promise<number>]): [string, JobHandler] => [
  type,
  async ({ log }) => log(`removed ${await cleanup()}`),
]
