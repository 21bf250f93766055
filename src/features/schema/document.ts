import { setImmediate as nextTurn } from 'node:timers/promises'
import { findTable } from '../../db/schema/lookup.ts'
import type { Column, Fn, Relation, Schema, Table } from '../../db/schema/snapshot.ts'

/** The reader of the document: `admin` sees policies and every column; `tables` are those of a limited API key. */
export type Audience = { admin: boolean; tables: readonly string[] }

/** Tables described before yielding to other requests; a thousand wide ones take much of a second. */
const SLICE = 20

/** The response of GET /api/schema as JSON text. Yields between slices. */
export async function schemaDocument(schema: Schema, audience: Audience): Promise<string[]> {
  const listed = listedTables(schema, audience)
  const tables: string[] = []
  for (const entry of listed.values()) {
    tables.push(
      `${tables.length === 0 ? '{"tables":{' : ','}${JSON.stringify(`${entry.table.schema}.${entry.table.name}`)}:${JSON.stringify(describe(entry, listed))}`,
    )
    if (tables.length % SLICE === 0) await nextTurn()
  }
  const rest = JSON.stringify({
    // An API key limited to tables cannot call functions.
    functions: audience.tables.length > 0 ? {} : functionEntries(schema),
    schemas: schema.schemas,
    hasPostGIS: schema.postGIS !== undefined,
    postGISVersion: schema.postGIS?.version,
    hasPgVector: schema.pgVector !== undefined,
    hasPgTrgm: schema.pgTrgm !== undefined,
    builtAt: schema.builtAt.toISOString(),
  })
  return [...(tables.length === 0 ? ['{"tables":{'] : tables), `},${rest.slice(1)}`]
}

type ListedTable = { table: Table; columns: ReadonlyMap<string, Column>; hidden: readonly string[]; admin: boolean }

/** Tables and columns on which a request role has a privilege. No other name appears in the document. */
function listedTables(schema: Schema, { admin, tables: allowed }: Audience): Map<string, ListedTable> {
  const limit = allowed.length > 0 ? new Set(allowed.map((name) => findTable(schema, name))) : undefined
  const listed = new Map<string, ListedTable>()
  for (const [key, table] of schema.tables) {
    if (!isHeld(table.privileges) || (limit && !limit.has(table))) continue
    const columns = [...table.columns].filter(([, column]) => admin || isHeld(column.privileges))
    const visible = new Map(columns)
    const hidden = [...table.columns.keys()].filter((name) => !visible.has(name))
    listed.set(key, { table, columns: visible, hidden, admin })
  }
  return listed
}

const isHeld = (privileges: { svc_anon: ReadonlySet<unknown>; svc_authenticated: ReadonlySet<unknown> }): boolean =>
  privileges.svc_anon.size + privileges.svc_authenticated.size > 0

function describe(entry: ListedTable, listed: ReadonlyMap<string, ListedTable>): object {
  const { table, columns, hidden, admin } = entry
  const shows = (at: ListedTable | undefined, names: readonly string[]) =>
    at !== undefined && names.every((name) => at.columns.has(name))
  const namesNoHiddenColumn = ({ definition }: { definition: string }) =>
    !hidden.some((name) => definition.includes(name))

  const foreignKeys = table.foreignKeys.filter(
    (key) =>
      shows(entry, key.columns) &&
      (admin || shows(listed.get(`${key.referencedSchema}.${key.referencedTable}`), key.referencedColumns)),
  )
  const relationships = table.relations
    .filter(({ fromColumns, to, toColumns }) => shows(entry, fromColumns) && shows(listed.get(to), toColumns))
    .map((relation) => relationship(table, relation, listed))
  return {
    schema: table.schema,
    name: table.name,
    kind: table.kind,
    comment: table.comment,
    columns: [...columns.values()].map(columnEntry),
    primaryKey: table.primaryKey.map(({ name }) => name).filter((name) => columns.has(name)),
    foreignKeys: unlessEmpty(foreignKeys),
    checkConstraints: unlessEmpty(table.checkConstraints.filter(namesNoHiddenColumn)),
    indexes: unlessEmpty(table.indexes.filter(namesNoHiddenColumn)),
    relationships: unlessEmpty(relationships),
    rlsEnabled: table.rlsEnabled,
    rlsPolicies: admin ? unlessEmpty(table.rlsPolicies.map(({ callers: _, ...policy }) => policy)) : undefined,
  }
}

/** JSON.stringify omits undefined. */
const unlessEmpty = <T>(list: readonly T[]): readonly T[] | undefined => (list.length === 0 ? undefined : list)

const columnEntry = (column: Column): object => ({
  name: column.name,
  position: column.position,
  type: column.type,
  nullable: column.nullable,
  default: column.default,
  comment: column.comment,
  isPrimaryKey: column.isPrimaryKey,
  isGenerated: column.isGenerated,
  isIdentity: column.isIdentity,
  isGeometry: column.isGeometry,
  isGeography: column.isGeography,
  isVector: column.isVector,
  vectorDim: column.vectorDim,
  geometryType: column.geometryType,
  srid: column.srid,
  coordDimension: column.coordDimension,
  jsonType: column.jsonType,
  enumValues: column.enumValues,
})

function relationship(from: Table, relation: Relation, listed: ReadonlyMap<string, ListedTable>): object {
  const to = listed.get(relation.to)?.table
  return {
    name: relation.constraint,
    type: relation.type,
    fromSchema: from.schema,
    fromTable: from.name,
    fromColumns: relation.fromColumns,
    toSchema: to?.schema,
    toTable: to?.name,
    toColumns: relation.toColumns,
    fieldName: relation.fieldName,
  }
}

function functionEntries(schema: Schema): Record<string, object> {
  const entries: [string, object][] = []
  for (const [key, overloads] of schema.functions) {
    const [first, ...others] = overloads.filter((fn) => fn.executableBy.size > 0)
    if (first === undefined) continue
    entries.push([key, { ...functionEntry(first), overloads: unlessEmpty(others.map(functionEntry)) }])
  }
  return Object.fromEntries(entries)
}

const functionEntry = (fn: Fn): object => ({
  schema: fn.schema,
  name: fn.name,
  comment: fn.comment,
  parameters: fn.parameters.map(({ name, type, position, hasDefault, isVariadic }) => ({
    name,
    type,
    position,
    hasDefault,
    isVariadic: isVariadic || undefined,
  })),
  returnType: fn.returnType,
  returnsSet: fn.returnsSet,
  isVoid: fn.isVoid,
})
