import type { DatabaseRole } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { findTable, mayDo } from '../../db/schema/lookup.ts'
import type { Column, Schema, Table } from '../../db/schema/snapshot.ts'
import { isSpatial } from '../../db/schema/spatial-conversion.ts'
import {
  columnFor,
  columnsFor,
  isAllowed,
  keyFor,
  relationFor,
  type Viewer,
  writableColumns,
} from '../../db/schema/viewer.ts'
import { textColumns } from '../../db/search/search-text.ts'
import { holdsVectors } from '../../db/search/vectors.ts'
import type { Route } from '../../http/route.ts'
import { type ComponentNames, Enums, ref } from './component-names.ts'
import { type ApiOperation, failures, requestBody, responsesOf, withInner } from './operation.ts'
import { columnType } from './value-type.ts'

/** The OpenAPI entries of a table for one role. */
export type TableEntries = { components: [string, t.JsonSchema][]; paths: [string, object][] }

/** The name that clients use: without the schema if that is unambiguous. */
export const nameOf = (schema: Schema, table: Table): string =>
  findTable(schema, table.name) === table ? table.name : `${table.schema}.${table.name}`

export function tableEntries(
  schema: Schema,
  table: Table,
  viewer: Viewer,
  { names, routes }: { names: ComponentNames; routes: readonly Route[] },
): TableEntries {
  const { role } = viewer
  const name = nameOf(schema, table)
  const enums = new Enums(names)
  const properties = (columns: readonly Column[]) =>
    Object.fromEntries(columns.map((column) => [column.name, columnType(column, enums.ref)]))

  const shown = columnsFor(table, role)
  const [row, create, update] = [names.of('Row', name), names.of('Create', name), names.of('Update', name)]
  const components: TableEntries['components'] = []
  if (shown.length > 0) {
    const required = shown.map((column) => column.name)
    const facts = { 'x-table': factsOf(schema, table, viewer) }
    components.push([
      row,
      { type: 'object', properties: properties(shown), required, ...described(table.comment), ...facts },
    ])
  }
  if (canCreate(table, role)) {
    const columns = writableColumns(table, role, 'insert')
    const required = columns.filter((c) => !c.nullable && c.default === undefined && !c.isIdentity).map((c) => c.name)
    components.push([
      create,
      { type: 'object', properties: properties(columns), ...(required.length > 0 && { required }) },
    ])
  }
  if (canUpdate(table, role)) {
    components.push([update, { type: 'object', properties: properties(writableColumns(table, role, 'update')) }])
  }
  components.push(...enums.components)
  const types = { row: ref(row), create: ref(create), update: ref(update) }
  return { components, paths: [...paths(routes, { name, table, role, types })] }
}

/** What JSON Schema has no words for, as the extension `x-table` of a row: makers of clients need it. */
type TableFacts = {
  /** Columns of the primary key. */
  readonly key: readonly string[]
  /** Columns that `onConflict` takes, joined by commas. */
  readonly unique: readonly string[]
  /** What `expand` and paths in filters take. */
  readonly relations: Readonly<Record<string, { readonly table: string; readonly many: boolean }>>
}

function factsOf(schema: Schema, table: Table, viewer: Viewer): TableFacts {
  const { role } = viewer
  const isShown = (name: string): boolean => columnFor(table, name, role) !== undefined
  const relations = table.relations.flatMap(({ fieldName, type }) => {
    const step = relationFor(schema, table, fieldName, role)
    if (!step || !isAllowed(schema, step.target, viewer)) return []
    return [[fieldName, { table: nameOf(schema, step.target), many: type === 'one-to-many' }] as const]
  })
  return {
    key: keyFor(table, role).map((column) => column.name),
    unique: table.uniqueKeys.filter(({ columns }) => columns.every(isShown)).map(({ columns }) => columns.join()),
    relations: Object.fromEntries(relations),
  }
}

const described = (comment: string | undefined) => (comment === undefined ? {} : { description: comment })

const hasKey = (table: Table, role: DatabaseRole): boolean => keyFor(table, role).length > 0
const canCreate = (table: Table, role: DatabaseRole): boolean => table.insertable && mayDo(table, role, 'insert')
const canUpdate = (table: Table, role: DatabaseRole): boolean =>
  table.updatable && mayDo(table, role, 'update') && hasKey(table, role)
const canDelete = (table: Table, role: DatabaseRole): boolean =>
  table.updatable && mayDo(table, role, 'delete') && hasKey(table, role)

type TableContext = {
  readonly name: string
  readonly table: Table
  readonly role: DatabaseRole
  readonly types: Readonly<Record<'row' | 'create' | 'update', t.JsonSchema>>
}

/** The collection routes with the columns of this table, without those that it does not support. */
function paths(routes: readonly Route[], described: TableContext): Map<string, object> {
  const items = new Map<string, object>()
  for (const route of routes) {
    if (!isOffered(route, described)) continue
    const path = route.path.replace('{table}', encodeURIComponent(described.name))
    items.set(path, { ...items.get(path), [route.method.toLowerCase()]: operation(route, described) })
  }
  return items
}

function isOffered({ method, path }: Route, { table, role }: TableContext): boolean {
  if (method === 'GET') return mayDo(table, role, 'select') && (!path.endsWith('/{id}') || hasKey(table, role))
  if (method === 'PATCH') return canUpdate(table, role)
  return method === 'DELETE' ? canDelete(table, role) : canCreate(table, role)
}

function operation(route: Route, described: TableContext): ApiOperation {
  const { name, types } = described
  const written = route.path.endsWith('/batch')
    ? { anyOf: [types.create, ...(canUpdate(described.table, described.role) ? [types.update] : [])] }
    : types[route.method === 'PATCH' ? 'update' : 'create']
  const parameters = [
    ...(route.path.endsWith('/{id}') ? ['id'] : []),
    ...Object.keys(route.contract.query ?? {}).filter((parameter) => isUseful(parameter, described)),
  ]
  return {
    tags: [`table: ${name}`],
    summary: route.contract.summary,
    ...(parameters.length > 0 && {
      parameters: parameters.map((parameter) => ({ $ref: `#/components/parameters/${parameter}` })),
    }),
    ...requestBody(route, (type) => withRow(type, written)),
    responses: { ...responsesOf(route, (type) => withRow(type, types.row)), ...failures },
  }
}

type ColumnTest = (columns: readonly Column[]) => boolean
const text: ColumnTest = (columns) => textColumns(columns).length > 0
const vectors: ColumnTest = (columns) => columns.some(holdsVectors)
const spatial: ColumnTest = (columns) => columns.some(isSpatial)

/** Parameters that need a column of a certain kind. */
const NEEDED: Readonly<Record<string, ColumnTest>> = {
  search: text,
  fuzzy: text,
  typo_threshold: text,
  highlight: text,
  nearest: vectors,
  semantic_query: vectors,
  semantic: (columns) => text(columns) && vectors(columns),
  vector_column: vectors,
  distance: vectors,
  near: spatial,
  within: spatial,
  intersects: spatial,
  bbox: spatial,
}

function isUseful(parameter: string, { table, role }: TableContext): boolean {
  if (parameter === 'cursor') return hasKey(table, role)
  if (parameter === 'onConflict' || parameter === 'merge') return table.uniqueKeys.length > 0
  return NEEDED[parameter]?.(columnsFor(table, role)) ?? true
}

/** Replaces `t.row` of the general routes by the row of the table. */
function withRow(type: t.JsonSchema, row: t.JsonSchema): t.JsonSchema {
  if (type.additionalProperties === t.row.additionalProperties && !type.properties) return row
  return withInner(type, (inner) => withRow(inner, row))
}
