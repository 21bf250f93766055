import type { JobHandler } from '../core/job.ts'
import type { Route } from './route.ts'

/**
 * One capability of the server, as one value. app.ts starts features in order and stops them in reverse; nothing else
 * knows lifecycles. What a feature offers to others are further members of its own.
 */
export type Feature = {
  readonly routes?: readonly Route[]
  /** Before the server listens. */
  start?(): Promise<void> | void
  /** A graceful stop begins: what would never end by itself ends now, so that requests in flight can finish. */
  drain?(): void
  stop?(): Promise<void> | void
  /** Work that can be queued and scheduled, by type. */
  readonly jobs?: Readonly<Record<string, JobHandler>>
  /** Figures of GET /api/admin/stats. */
  stats?(): Readonly<Record<string, unknown>>
}
