import type { JobHandler } from '../core/job.ts'
import type { Route } from './route.ts'

/**
 * One capability of the server. app.ts starts features in order and stops them in reverse. What a feature provides to
 * other features are further members of its value.
 */
export type Feature = {
  readonly routes?: readonly Route[]
  /** Runs before the server listens. */
  start?(): Promise<void> | void
  /** Runs when a graceful stop begins: ends streams, which would never end by themselves. */
  drain?(): void
  stop?(): Promise<void> | void
  /** Handlers of queued and scheduled jobs, by type. */
  readonly jobs?: Readonly<Record<string, JobHandler>>
  /** Figures of GET /api/admin/stats. */
  stats?(): Readonly<Record<string, unknown>>
}
