import type { DatabaseRole } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { findTable, mayDo } from '../../db/schema/lookup.ts'
import type { Column, Schema, Table } from '../../db/schema/snapshot.ts'
import { columnsFor, keyFor } from '../../db/schema/viewer.ts'
import { type ComponentNames, ref } from './component-names.ts'
import { failures, jsonOf, type Operation } from './operation.ts'
import { columnType } from './value-type.ts'

/** A table as one role sees it, in OpenAPI's words. */
export type TableEntries = { components: [string, t.JsonSchema][]; paths: [string, object][] }

/** As a client would call it: bare where that means this table. */
export const nameOf = (schema: Schema, table: Table): string =>
  findTable(schema, table.name) === table ? table.name : `${table.schema}.${table.name}`

export function tableEntries(schema: Schema, table: Table, role: DatabaseRole, names: ComponentNames): TableEntries {
  const name = nameOf(schema, table)
  const enums = new Map<string, t.JsonSchema>()
  const typeOf = (column: Column): t.JsonSchema =>
    columnType(column, ({ type, enumValues = [] }) => {
      const key = names.of('Enum', type.replace(/\[\]$/, ''))
      enums.set(key, t.oneOf(enumValues))
      return ref(key)
    })
  const properties = (columns: readonly Column[]) => Object.fromEntries(columns.map((c) => [c.name, typeOf(c)]))
  const mayWrite = (column: Column, how: 'insert' | 'update'): boolean =>
    !column.isGenerated && (role === 'none' || column.privileges[role].has(how))

  const all = [...table.columns.values()]
  const shown = columnsFor(table, role)
  const [row, create, update] = [names.of('Row', name), names.of('Create', name), names.of('Update', name)]
  const components: TableEntries['components'] = []
  if (shown.length > 0) {
    const required = shown.map((column) => column.name)
    components.push([row, { type: 'object', properties: properties(shown), required, ...described(table.comment) }])
  }
  if (canCreate(table, role)) {
    const columns = all.filter((column) => mayWrite(column, 'insert'))
    const required = columns.filter((c) => !c.nullable && c.default === undefined && !c.isIdentity).map((c) => c.name)
    components.push([
      create,
      { type: 'object', properties: properties(columns), ...(required.length > 0 && { required }) },
    ])
  }
  if (canUpdate(table, role)) {
    components.push([update, { type: 'object', properties: properties(all.filter((c) => mayWrite(c, 'update'))) }])
  }
  components.push(...enums)
  return { components, paths: paths(name, table, role, { row: ref(row), create: ref(create), update: ref(update) }) }
}

const described = (comment: string | undefined) => (comment === undefined ? {} : { description: comment })

const hasKey = (table: Table, role: DatabaseRole): boolean => keyFor(table, role).length > 0
const canCreate = (table: Table, role: DatabaseRole): boolean => table.insertable && mayDo(table, role, 'insert')
const canUpdate = (table: Table, role: DatabaseRole): boolean =>
  table.updatable && mayDo(table, role, 'update') && hasKey(table, role)
const canDelete = (table: Table, role: DatabaseRole): boolean =>
  table.updatable && mayDo(table, role, 'delete') && hasKey(table, role)

type Types = Readonly<Record<'row' | 'create' | 'update', t.JsonSchema>>

/** Everything the general paths of collections say, with the columns of this table. */
function paths(name: string, table: Table, role: DatabaseRole, types: Types): [string, object][] {
  const path = `/api/collections/${encodeURIComponent(name)}`
  const mayRead = mayDo(table, role, 'select')
  const one = (method: string, summary: string, rest: Omit<Operation, 'tags' | 'summary'>) => ({
    [method]: { tags: [`table: ${name}`], summary, ...rest },
  })
  const row = { description: 'Success', content: jsonOf(types.row) }
  const collection = {
    ...(mayRead &&
      one('get', 'List rows', {
        parameters: LIST.map((parameter) => ({ $ref: `#/components/parameters/${parameter}` })),
        responses: { 200: { description: 'Success', content: jsonOf(t.pageOf(types.row)) }, ...failures },
      })),
    ...(canCreate(table, role) &&
      one('post', 'Create a row', {
        requestBody: { content: jsonOf(types.create) },
        responses: { 201: row, ...failures },
      })),
  }
  const id = { $ref: '#/components/parameters/id' }
  const byKey = `${path}/{id}`
  const record = {
    ...(mayRead &&
      hasKey(table, role) &&
      one('get', 'Read a row', {
        parameters: [id, ...READ.map((parameter) => ({ $ref: `#/components/parameters/${parameter}` }))],
        responses: { 200: row, ...failures },
      })),
    ...(canUpdate(table, role) &&
      one('patch', 'Change a row; what is left out stays', {
        parameters: [id],
        requestBody: { content: jsonOf(types.update) },
        responses: { 200: row, ...failures },
      })),
    ...(canDelete(table, role) &&
      one('delete', 'Delete a row', {
        parameters: [id],
        responses: { 204: { description: 'No content' }, ...failures },
      })),
  }
  const entries: [string, object][] = [
    [path, collection],
    [byKey, record],
  ]
  return entries.filter(([, item]) => Object.keys(item).length > 0)
}

const READ = ['fields', 'expand']
const LIST = ['page', 'perPage', 'filter', 'sort', ...READ, 'skipTotal']
