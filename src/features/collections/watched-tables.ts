import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import { findTable } from '../../db/schema/lookup.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { sql } from '../../db/sql.ts'

/**
 * Puts the trigger of svc.watch() on the tables of `realtime.watch`. A table that cannot be watched (not there yet,
 * not ours) is reported and does not keep the server from starting.
 */
export async function watchTables(
  { db, schema, observe }: { db: Db; schema: SchemaCache; observe: Observe },
  names: readonly string[],
): Promise<void> {
  for (const name of names) {
    const table = findTable(schema.read(), name)
    if (table?.watched) continue
    try {
      if (!table) throw new Error('there is no such table')
      await db.run(SYSTEM, sql`select svc.watch(${table.ident.quoted}::regclass)`)
    } catch (error) {
      observe({ level: 'warn', message: 'cannot watch table', attrs: { table: name, reason: reasonOf(error) } })
    }
  }
  if (names.length > 0) await schema.refreshIfStale()
}
