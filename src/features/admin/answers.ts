import { ADMIN_ROLES } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { DURABILITIES } from './durability.ts'

/** Response schemas of the admin routes. */

export const statusAnswer = t.object({
  auth: t.boolean({ description: 'whether there is an admin to sign in as' }),
  drill: t.optional(t.boolean({ description: 'it runs on a restored copy that was not taken over' })),
  warnings: t.optional(t.array(t.string())),
  environment: t.optional(t.string({ description: 'name of this installation, `admin.environment`' })),
  locked: t.optional(t.boolean({ description: 'of a dashboard that has to be unlocked to write' })),
  verified_backup_at: t.optional(
    t.nullable(t.time({ description: 'when a backup was last found good by restoring it; where backups are on' })),
  ),
  durability: t.optional(t.oneOf(DURABILITIES, { description: 'where an acknowledged write is; for the admin' })),
})

const sqlFields = {
  columns: t.array(t.string()),
  rows: t.array(t.array(t.any())),
  rowCount: t.integer({ description: 'rows returned, else rows affected' }),
  durationMs: t.number(),
  message: t.optional(t.string({ description: 'says when the result was cut' })),
}

const saved = t.optional(
  t.object({
    id: t.uuid(),
    name: t.string(),
    author: t.string({ description: 'who changed it last' }),
    runner: t.string(),
    role: t.oneOf(ADMIN_ROLES, { description: 'the lesser of both roles, which it ran with' }),
  }),
)

/** Of the last statement, or with `all` of each. */
export const sqlResult = t.union(
  t.object({ ...sqlFields, saved }),
  t.object({
    results: t.array(t.object({ ...sqlFields, command: t.string({ description: 'such as INSERT' }) })),
    saved,
  }),
)

export const logs = t.object({
  entries: t.array(
    t.object({
      id: t.string(),
      time: t.time(),
      level: t.oneOf(['DEBUG', 'INFO', 'WARN', 'ERROR']),
      message: t.string(),
      attrs: t.optional(t.row),
    }),
  ),
  next: t.optional(t.string({ description: 'for `after`' })),
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
    db_connections: t.integer({ description: 'open to PostgreSQL now, for whatever purpose' }),
    db_connections_max: t.integer({
      description: 'at most, beside what exports, imports and admin SQL open for a while',
    }),
  }),
)
