import type { Census } from '../core/census.ts'
import type { LogEntry } from '../core/observe.ts'

/** What the process around the server lends it. */
export type Surroundings = {
  census: Census
  /** The entries of GET /api/admin/logs, oldest first. */
  logEntries: () => LogEntry[]
  /** Figures of all features, for GET /api/admin/stats. */
  stats: () => Readonly<Record<string, unknown>>
}
