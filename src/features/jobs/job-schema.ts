import * as t from '../../core/json-type.ts'
import { STATES } from './sql.ts'

/** A job as the API shows it. */
export const job = t.object({
  id: t.uuid(),
  type: t.string(),
  state: t.oneOf(STATES),
  payload: t.record(t.any()),
  attempts: t.integer(),
  maxAttempts: t.integer(),
  runAt: t.time(),
  leaseUntil: t.optional(t.time()),
  workerId: t.optional(t.string()),
  lastRunAt: t.optional(t.time()),
  lastError: t.nullable(t.string()),
  idempotencyKey: t.optional(t.string()),
  scheduleId: t.optional(t.uuid()),
  progress: t.optional(t.number({ description: '0 to 1' })),
  log: t.optional(t.array(t.string(), { description: 'the last 100 lines' })),
  completedAt: t.optional(t.time()),
  canceledAt: t.optional(t.time()),
  createdAt: t.time(),
  updatedAt: t.time(),
})
