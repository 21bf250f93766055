import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../db.ts'
import { findTable } from '../schema/lookup.ts'
import type { SchemaCache, Table } from '../schema/snapshot.ts'
import { type Sql, sql } from '../sql.ts'

type Deps = { db: Db; schema: SchemaCache; observe: Observe }

/** Of several processes one makes the trigger, and the others find it there. */
const ONE_AT_A_TIME: Sql = sql`select pg_advisory_xact_lock(hashtext('svc.watch'))`

/** Puts the trigger of svc.watch() on a table; what cannot be watched (not ours) is reported and stops nothing. */
export async function watchTable({ db, observe }: Omit<Deps, 'schema'>, table: Table): Promise<boolean> {
  try {
    await db.run(SYSTEM, [ONE_AT_A_TIME, sql`select svc.watch(${table.ident.quoted}::regclass)`])
    return true
  } catch (error) {
    const attrs = { table: `${table.schema}.${table.name}`, reason: reasonOf(error) }
    observe({ message: 'cannot watch table', attrs })
    return false
  }
}

/** For the tables of `realtime.watch`. One that is not there yet does not keep the server from starting. */
export async function watchTables(deps: Deps, names: readonly string[]): Promise<void> {
  const { schema, observe } = deps
  for (const name of names) {
    const table = findTable(schema.read(), name)
    if (table?.watched) continue
    if (table) await watchTable(deps, table)
    else {
      const attrs = { table: name, reason: 'there is no such table' }
      observe({ message: 'cannot watch table', attrs })
    }
  }
  if (names.length > 0) await schema.refreshIfStale()
}
