import { reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../db.ts'
import { findTable } from '../schema/lookup.ts'
import type { SchemaCache, Table } from '../schema/snapshot.ts'
import { type Sql, sql } from '../sql.ts'

type Deps = { db: Db; schema: SchemaCache; observe: Observe }

/** Serialises the creation of the trigger by several processes. */
const ONE_AT_A_TIME: Sql = sql`select pg_advisory_xact_lock(hashtext('svc.watch'))`

/** Creates the trigger of svc.watch() on a table; a failure, such as a missing privilege, is only logged. */
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

/** For the tables of `realtime.watch`. A missing table does not keep the server from starting. */
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
