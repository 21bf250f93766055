import type { Identity } from '../../core/identity.ts'
import type { Table } from '../schema/snapshot.ts'
import { type Sql, sql } from '../sql.ts'

export type ChangeAction = 'create' | 'update' | 'delete'

/** Who made a change, as the log keeps it. */
export function actorOf(who: Identity): string {
  switch (who.kind) {
    case 'user':
    case 'mfa':
      return JSON.stringify({ kind: 'user', id: who.id })
    case 'key':
      return JSON.stringify({ kind: 'key', id: who.keyId, ...(who.userId !== null && { userId: who.userId }) })
    case 'admin':
      return JSON.stringify({ kind: 'admin', id: who.tokenId })
    case 'anonymous':
    case 'system':
      return JSON.stringify({ kind: who.kind })
  }
}

/**
 * One row of the log per row of `from`, for a data-modifying CTE beside the change itself: both commit or neither.
 * `pk`, `record` and `oldRecord` are jsonb expressions over `from`.
 */
export const appendChanges = (change: {
  action: ChangeAction
  table: Table
  actor: string
  pk: Sql
  record: Sql
  oldRecord: Sql
  from: Sql
}): Sql => sql`
  insert into svc.changes (action, schema_name, table_name, pk, record, old_record, actor)
  select ${change.action}::text, ${change.table.schema}::text, ${change.table.name}::text,
    ${change.pk}, ${change.record}, ${change.oldRecord}, ${change.actor}::pg_catalog.jsonb
  from ${change.from}`

/** For tables whose log is written by the trigger of svc.watch(): tells it who is writing. */
export const announceActor = (who: Identity): Sql =>
  sql`select pg_catalog.set_config('svc.actor', ${actorOf(who)}, true)`
