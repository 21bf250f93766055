import { getOrCreate } from '../../core/get-or-create.ts'
import type { DatabaseRole } from '../../core/identity.ts'
import type { Column, Fn, Privilege, Relation, Schema, SchemaCache, Table } from './snapshot.ts'

/** `table`, looked up in the order of the exposed schemas, or `schema.table`. The name may be request text. */
export const findTable = (schema: Schema, name: string): Table | undefined => find(schema, schema.tables, name)

const byOid = new WeakMap<Schema, ReadonlyMap<number, Table>>()

/** A table by its oid, also after a rename. */
export function tableByOid(schema: Schema, oid: number): Table | undefined {
  const index = () => new Map([...schema.tables.values()].map((table) => [table.oid, table]))
  return getOrCreate(byOid, schema, index).get(oid)
}

/** As findTable, with svc.objects, whose changes are streamed and whose policies are explained. */
export const findStreamed = (schema: Schema, name: string): Table | undefined =>
  name === 'svc.objects' ? schema.objects : findTable(schema, name)

export const streamedByOid = (schema: Schema, oid: number): Table | undefined =>
  tableByOid(schema, oid) ?? (schema.objects?.oid === oid ? schema.objects : undefined)

/** Every overload of `name` or `schema.name`, fewest parameters first; empty when there is none. */
export const findFunctions = (schema: Schema, name: string): readonly Fn[] => find(schema, schema.functions, name) ?? []

/** `schema.table` wins over a table whose own name contains a dot. */
function find<T>(schema: Schema, map: ReadonlyMap<string, T>, name: string): T | undefined {
  const qualified = name.includes('.') ? map.get(name) : undefined
  if (qualified !== undefined) return qualified
  for (const exposed of schema.schemas) {
    const found = map.get(`${exposed}.${name}`)
    if (found !== undefined) return found
  }
  return undefined
}

/** The columns that exist for this role: those it may SELECT, in table order. */
export const visibleColumns = (table: Table, role: DatabaseRole): Column[] =>
  [...table.columns.values()].filter((column) => role === 'none' || column.privileges[role].has('select'))

/** Whether the role holds the privilege on the table or on any of its columns. */
export const mayDo = (table: Table, role: DatabaseRole, privilege: Privilege): boolean =>
  role === 'none' || table.privileges[role].has(privilege)

/** A table on which a role holds nothing does not exist for it. */
export const isVisible = (table: Table, role: DatabaseRole): boolean =>
  role === 'none' || table.privileges[role].size > 0

export const mayExecute = (fn: Fn, role: DatabaseRole): boolean => role === 'none' || fn.executableBy.has(role)

/** The relation called `name`; a field name wins over an alias of another relation. */
export const findRelation = (table: Table, name: string): Relation | undefined =>
  table.relations.find((relation) => relation.fieldName === name) ??
  table.relations.find((relation) => relation.names.includes(name))

/**
 * Runs `attempt` on the snapshot, which may lag behind the database. If it finds nothing, refreshes the snapshot and tries
 * once more. Refreshes are shared and rate-limited, so a flood of misses costs a few of them a second.
 */
export async function findOrRefresh<T>(
  cache: SchemaCache,
  attempt: (schema: Schema) => T | undefined | Promise<T | undefined>,
): Promise<T | undefined> {
  const current = cache.read()
  const found = await attempt(current)
  if (found !== undefined) return found
  const fresh = await cache.refreshIfStale()
  return fresh === current ? undefined : attempt(fresh)
}
