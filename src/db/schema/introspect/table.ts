import { setImmediate as nextTurn } from 'node:timers/promises'
import { Ident } from '../../sql.ts'
import type { Column, ColumnType, ForeignKey, Index, Table, TableKind } from '../snapshot.ts'
import type { Catalog, CatalogForeignKey, CatalogTable } from './catalogue.ts'
import { columnOf, columnPrivileges, tablePrivileges } from './column.ts'
import { groupBy, groupKey } from './group.ts'
import { type Link, relationsOf } from './relations.ts'

/** The column names of each table, by table oid and attribute number. */
type Names = ReadonlyMap<number, ReadonlyMap<number, string>>

const namesOf = (names: Names, table: number, attnums: readonly number[]): string[] =>
  attnums.map((attnum) => names.get(table)?.get(attnum) ?? '')

/** Tables built per turn of the event loop. */
const SLICE = 20

export async function tablesOf(catalog: Catalog, types: ReadonlyMap<string, ColumnType>): Promise<Map<string, Table>> {
  const names: Names = new Map(
    catalog.tables.map(({ oid, columns }) => [oid, new Map((columns ?? []).map(([attnum, name]) => [attnum, name]))]),
  )
  const links = linksOf(catalog, names)
  const outgoing = groupBy(links, (link) => link.from)
  const incoming = groupBy(links, (link) => link.to)
  const foreignKeys = groupBy(catalog.foreignKeys, (key) => key.table)
  const checks = groupBy(catalog.checks, (check) => check.table)
  const indexes = groupBy(catalog.indexes, (index) => index.table)
  const policies = groupBy(catalog.policies, (policy) => policy.table)
  const withUserCode = writesThatRunUserCode(catalog)
  const tables = new Map<string, Table>()
  for (const row of catalog.tables) {
    if (tables.size % SLICE === 0) await nextTurn()
    const key = groupKey(row.schema, row.name)
    const { columns, primaryKey } = columnsOf(row, types)
    tables.set(key, {
      schema: row.schema,
      name: row.name,
      ident: new Ident(row.schema, row.name),
      oid: row.oid,
      kind: KINDS[row.kind],
      comment: row.comment ?? undefined,
      columns,
      primaryKey,
      foreignKeys: (foreignKeys.get(row.oid) ?? []).map((entry) => foreignKeyOf(entry, names)),
      relations: relationsOf(outgoing.get(key) ?? [], incoming.get(key) ?? []),
      checkConstraints: (checks.get(row.oid) ?? []).flatMap(({ name, definition }) =>
        definition === null ? [] : { name, definition },
      ),
      indexes: (indexes.get(row.oid) ?? []).flatMap((index) => indexOf(index, names)),
      uniqueKeys: (indexes.get(row.oid) ?? [])
        .filter(({ isUniqueKey }) => isUniqueKey)
        .map((index) => ({ name: index.name, columns: namesOf(names, index.table, index.columns) })),
      rlsEnabled: row.rls,
      rlsPolicies: (policies.get(row.oid) ?? []).map(({ table: _, reads: __, ...policy }) => policy),
      privileges: privilegesOf(row),
      wholeFor: wholeFor(tablePrivileges(row.privileges)),
      insertable: isWritable(row, CAN_INSERT),
      updatable: isWritable(row, CAN_UPDATE_AND_DELETE),
      hasRules: row.rules !== 0,
      watched: row.watched,
      runsUserCode: withUserCode.has(row.oid),
    })
  }
  return tables
}

/** A cascading foreign key runs the triggers of its referencing table. */
function writesThatRunUserCode({ tables, foreignKeys }: Catalog): ReadonlySet<number> {
  const found = new Set(tables.filter(({ userCode }) => userCode).map(({ oid }) => oid))
  const cascading = groupBy(
    foreignKeys.filter(({ onUpdate, onDelete }) => CHANGES.test(onUpdate) || CHANGES.test(onDelete)),
    ({ table }) => table,
  )
  // The iteration includes what is added to the set meanwhile.
  for (const oid of found) for (const { refTable } of cascading.get(oid) ?? []) found.add(refTable)
  return found
}

const CHANGES = /^(?:CASCADE|SET )/

const KINDS: Record<CatalogTable['kind'], TableKind> = {
  r: 'table',
  p: 'partitioned_table',
  v: 'view',
  m: 'materialized_view',
  f: 'foreign_table',
}

function columnsOf(row: CatalogTable, types: ReadonlyMap<string, ColumnType>) {
  const keyPositions = row.primaryKey ?? []
  const inKey = new Set(keyPositions)
  const ofTable = columnPrivileges(row.privileges)
  const columns = new Map<string, Column>()
  const byPosition = new Map<number, Column>()
  for (const entry of row.columns ?? []) {
    const column = columnOf(entry, types, inKey, ofTable)
    if (column === undefined) continue
    columns.set(column.name, column)
    byPosition.set(column.position, column)
  }
  return { columns, primaryKey: keyPositions.flatMap((position) => byPosition.get(position) ?? []) }
}

/** Table-level privileges and those held on any column. */
function privilegesOf(row: CatalogTable): Table['privileges'] {
  let [anon, authenticated] = row.privileges
  for (const [, , , , , , bits] of row.columns ?? []) {
    anon |= bits?.[0] ?? 0
    authenticated |= bits?.[1] ?? 0
  }
  return tablePrivileges([anon, authenticated])
}

const wholeFor = ({ svc_anon, svc_authenticated }: Table['privileges']): Table['wholeFor'] =>
  new Set([
    'none',
    ...(svc_anon.has('select') ? (['svc_anon'] as const) : []),
    ...(svc_authenticated.has('select') ? (['svc_authenticated'] as const) : []),
  ])

// Bits of pg_relation_is_updatable: 1 << CmdType.
const CAN_INSERT = 8
const CAN_UPDATE_AND_DELETE = 4 | 16

function isWritable(row: CatalogTable, required: number): boolean {
  if ((row.rules & required) !== 0) return false
  if (row.writable === null) return row.kind === 'r' || row.kind === 'p'
  return (row.writable & required) === required
}

function indexOf(row: Catalog['indexes'][number], names: Names): Index | [] {
  const { table, columns, expressions, definition, isUniqueKey: _, ...index } = row
  if (definition === null) return [] // dropped while the catalogue was read
  const keys = namesOf(names, table, columns).map((name, i) => name || (expressions?.[i] ?? ''))
  return { ...index, columns: keys, definition }
}

const foreignKeyOf = (key: CatalogForeignKey, names: Names): ForeignKey => ({
  constraintName: key.name,
  columns: namesOf(names, key.table, key.columns),
  referencedSchema: key.refSchema,
  referencedTable: key.refName,
  referencedColumns: key.foreignNames ?? namesOf(names, key.refTable, key.refColumns),
  onUpdate: key.onUpdate,
  onDelete: key.onDelete,
})

/** Only keys that name one row, between two tables of the snapshot; a hidden schema is not reachable. */
function linksOf(catalog: Catalog, names: Names): Link[] {
  const tables = new Map(catalog.tables.map((table) => [table.oid, table]))
  // Tables are listed in the order of the schemas.
  const schemas = [...new Set(catalog.tables.map(({ schema }) => schema))]
  return catalog.foreignKeys.flatMap((key) => {
    const from = tables.get(key.table)
    const to = tables.get(key.refTable)
    if (from === undefined || to === undefined || key.overPeriod) return []
    return {
      constraint: key.name,
      from: groupKey(from.schema, from.name),
      fromName: from.name,
      fromRank: schemas.indexOf(from.schema),
      fromColumns: namesOf(names, from.oid, key.columns),
      to: groupKey(to.schema, to.name),
      toName: to.name,
      toColumns: namesOf(names, to.oid, key.refColumns),
      inherited: key.inherited,
    }
  })
}
