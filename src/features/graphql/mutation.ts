import type { GraphQLObjectType } from 'graphql'
import { getNamedType, Kind } from 'graphql'
import { AppError, badRequest } from '../../core/errors.ts'
import type { Appender, ChangeAction } from '../../db/changes/append.ts'
import { boundedArray, partsOfEach } from '../../db/rows/answer-size.ts'
import { logAll, logUpserts, MADE } from '../../db/rows/change-logging.ts'
import type { TableView } from '../../db/rows/table-view.ts'
import type { Conflict } from '../../db/rows/upsert.ts'
import { assignments, definitions, deleteRows, INPUT, insertRows, noRows, updateRows } from '../../db/rows/write.ts'
import type { Column } from '../../db/schema/snapshot.ts'
import { columnsFor } from '../../db/schema/viewer.ts'
import { COMMA, EMPTY, Ident, join, ROW, type Sql, sql } from '../../db/sql.ts'
import type { Operation } from './document/document.ts'
import { inputJson } from './input-json.ts'
import type { NamedTable, Names, Verb } from './names.ts'
import { conflictArgument } from './on-conflict.ts'
import { argumentsOf, type Compilation, requireAllowed, rootRows, selectList, whereContext } from './query.ts'
import { responseKey } from './result.ts'
import { meaningOf, type SelectedField, selectionOf } from './selection.ts'
import { parameter, type WhereInput, whereClause } from './where.ts'

/** Compiles a root field of a mutation to one statement that writes, logs and returns JSON. */
export function compileMutation(selected: SelectedField, c: Compilation): Sql {
  const meaning = selected.field && meaningOf(selected.field)
  if (meaning?.kind !== 'insert' && meaning?.kind !== 'update' && meaning?.kind !== 'delete') {
    throw new TypeError('not a mutation')
  }
  const { of: table } = meaning
  requireAllowed(table, c)
  const args = argumentsOf(selected, c)
  const write = { table, target: { schema: c.schema, table: table.table, viewer: c.viewer }, c, log: c.log }
  switch (meaning.kind) {
    case 'insert':
      return answer(write, selected, inserted(write, args), 'upsert')
    case 'update':
      return answer(write, selected, updated(write, args), 'update')
    case 'delete':
      return answer(write, selected, deleted(write, args), 'delete')
  }
}

const VERB = /^(insert|update|delete)_(.+)$/

/** The key of the first mutation that is not offered because the role may not write so. */
export function refusedMutation({ node }: Operation, names: Names): string | undefined {
  if (node.operation !== 'mutation') return undefined
  for (const selection of node.selectionSet.selections) {
    const [, verb, field] = (selection.kind === Kind.FIELD && VERB.exec(selection.name.value)) || []
    if (verb && field && names.field(field)?.refuses(verb as Verb)) return responseKey(selection)
  }
  return undefined
}

export const notPermitted = (): AppError => new AppError('insufficient_privilege', 'insufficient permissions')

type Write = { table: NamedTable; target: TableView; c: Compilation; log: Appender }

/** The columns in RETURNING for the response, in addition to those for the log. */
const visible = ({ table, viewer }: TableView): { also?: Sql } => {
  const columns = columnsFor(table, viewer.role).map(({ ident }) => sql`${ROW}.${ident}`)
  return columns.length > 0 ? { also: join(columns, COMMA) } : {}
}

/** One insert per set of columns, because absent columns take their defaults. */
function inserted(write: Write, args: WhereInput): Sql {
  const rows = args['objects'] as WhereInput[]
  const kinds = new Map<string, { columns: Column[]; bodies: string[] }>()
  for (const row of rows) {
    const columns = Object.keys(row).flatMap((name) => write.table.writable('insert').get(name) ?? [])
    const key = columns
      .map(({ name }) => name)
      .sort()
      .join('\0')
    const kind = kinds.get(key) ?? { columns, bodies: [] }
    kind.bodies.push(rowJson(row, columns))
    kinds.set(key, kind)
  }
  const conflict = conflictArgument(write.table, args['on_conflict'])
  const parts = [...kinds.values()].map(({ columns, bodies }, i) => ({
    name: new Ident(`svc_made${i}`),
    statement: insertOf(write, columns, bodies, conflict),
  }))
  const ctes = parts.map(({ name, statement }) => sql`${name} as (${statement})`)
  const all = parts.map(({ name }) => sql`select * from ${name}`)
  if (parts.length === 0) return sql`${MADE} as (${noRows(write.target, visible(write.target).also)})`
  return sql`${join(ctes, COMMA)}, ${MADE} as (${join(all, sql` union all `)})`
}

const rowJson = (row: WhereInput, columns: readonly Column[]): string =>
  `{${columns.map(({ name }) => `${JSON.stringify(name)}:${inputJson(row[name])}`).join(',')}}`

function insertOf(
  { target, log }: Write,
  columns: readonly Column[],
  bodies: readonly string[],
  conflict?: Conflict,
): Sql {
  if (columns.length === 0 && bodies.length > 1) {
    throw badRequest('several rows of defaults alone cannot be inserted at once')
  }
  const input = sql`pg_catalog.json_to_recordset(${`[${bodies.join(',')}]`}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`
  return insertRows(target, { columns, input, conflict, ...visible(target) }, log)
}

function updated(write: Write, args: WhereInput): Sql {
  const { target, table, c, log } = write
  const given = (args['_set'] ?? {}) as WhereInput
  const columns = Object.keys(given).flatMap((name) => table.writable('update').get(name) ?? [])
  const changes = [
    ...(columns.length > 0 ? [assignments(target.schema, columns)] : []),
    ...changed(
      table,
      args,
      '_inc',
      (column, value) => sql`${ROW}.${column.ident} operator(pg_catalog.+) ${value}::${column.castType}`,
    ),
    ...changed(
      table,
      args,
      '_append',
      (column, value) => sql`${ROW}.${column.ident} operator(pg_catalog.||) ${value}::pg_catalog.jsonb`,
    ),
    ...changed(
      table,
      args,
      '_prepend',
      (column, value) => sql`${value}::pg_catalog.jsonb operator(pg_catalog.||) ${ROW}.${column.ident}`,
    ),
  ]
  if (changes.length === 0) throw badRequest('nothing to change: give _set, _inc, _append or _prepend')
  const input =
    columns.length > 0
      ? [
          sql`pg_catalog.json_to_record(${rowJson(given, columns)}::pg_catalog.json) as ${INPUT}(${definitions(columns)})`,
        ]
      : []
  const where = whereClause(args['where'], table, ROW, whereContext(c))
  return updateRows(target, { set: join(changes, COMMA), from: input, where, ...visible(target) }, log)
}

const changed = (
  table: NamedTable,
  args: WhereInput,
  by: '_inc' | '_append' | '_prepend',
  value: (column: Column, value: Sql) => Sql,
): Sql[] =>
  Object.entries((args[by] ?? {}) as WhereInput).flatMap(([name, given]) => {
    const column = table.columns.get(name)
    if (!column || given === undefined) return []
    if (given === null) throw badRequest(`${by}.${name} must not be null`)
    return [sql`${column.ident} = ${value(column, sql`${parameter(given)}`)}`]
  })

function deleted(write: Write, args: WhereInput): Sql {
  const { target, table, c, log } = write
  const where = whereClause(args['where'], table, ROW, whereContext(c))
  return deleteRows(target, { where, ...visible(target) }, log)
}

function answer(
  { table, target, c, log }: Write,
  selected: SelectedField,
  made: Sql,
  action: 'upsert' | ChangeAction,
): Sql {
  const type = getNamedType(selected.field?.type) as GraphQLObjectType
  const asked = selectionOf(selected.inner, type, c.operation, c.variables)
  const parts = partsOfEach(1, asked.length)
  const fields = asked.map((field) => {
    const kind = field.field && meaningOf(field.field).kind
    const key = new Ident(field.key)
    if (kind === undefined) return sql`${type.name}::text as ${key}`
    if (kind === 'affected_rows') return sql`(select pg_catalog.count(*) from ${MADE}) as ${key}`
    const rows = sql`select ${selectList(field, rootRows(table, MADE, parts), c)} from ${MADE}`
    return sql`coalesce(${boundedArray(rows, parts)}, '[]'::pg_catalog.json) as ${key}`
  })
  const entries = action === 'upsert' ? logUpserts(target, log) : logAll(target, log, action, EMPTY)
  const logged = sql`case when pg_catalog.count(*) > 0 then ${entries} end`
  return sql`with ${made}
    select (select pg_catalog.to_json(svc_out.*)::text from (select ${join(fields, COMMA)}) as svc_out),
      (select ${logged} from ${MADE}), ${c.time.remainder}`
}
