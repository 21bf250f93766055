import * as t from '../../core/json-type.ts'
import { DURABILITIES } from './durability.ts'

/** Response schemas of the admin routes. */

export const statusAnswer = t.object({
  auth: t.boolean({ description: 'whether there is an admin to sign in as' }),
  drill: t.optional(t.boolean({ description: 'it runs on a restored copy that was not taken over' })),
  warnings: t.optional(t.array(t.string())),
  durability: t.optional(t.oneOf(DURABILITIES, { description: 'where an acknowledged write is; for the admin' })),
})

export const sqlResult = t.object({
  columns: t.array(t.string()),
  rows: t.array(t.array(t.any())),
  rowCount: t.integer({ description: 'rows returned, else rows affected' }),
  durationMs: t.number(),
  message: t.optional(t.string({ description: 'says when the result was cut' })),
})

export const logs = t.object({
  entries: t.array(
    t.object({
      time: t.time(),
      level: t.oneOf(['DEBUG', 'INFO', 'WARN', 'ERROR']),
      message: t.string(),
      attrs: t.optional(t.row),
    }),
  ),
  message: t.optional(t.string({ description: 'says when the buffer is off' })),
})

export const stats = t.open(
  t.object({
    version: t.string(),
    uptime_seconds: t.integer(),
    node_version: t.string(),
    goroutines: t.integer({ description: 'active async resources' }),
    memory_alloc: t.integer({ description: 'heap in use, bytes' }),
    memory_sys: t.integer({ description: 'resident memory, bytes' }),
    gc_cycles: t.integer(),
    db_pool_total: t.integer(),
    db_pool_idle: t.integer(),
    db_pool_in_use: t.integer(),
    db_pool_max: t.integer(),
  }),
)
