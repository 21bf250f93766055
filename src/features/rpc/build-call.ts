import type { DatabaseRole } from '../../core/identity.ts'
import type { Appender, ChangeAction } from '../../db/changes/append.ts'
import { operator } from '../../db/schema/filter/operators.ts'
import { convertedRow, isConverted, rowJsonb, valueJson } from '../../db/schema/row-json.ts'
import type { Fn, Parameter, Schema, Table } from '../../db/schema/snapshot.ts'
import { fromGeoJson, isSpatial } from '../../db/schema/spatial-conversion.ts'
import { COMMA, catalogueExpression, EMPTY, Ident, join, ROW, type Slot, type Sql, sql } from '../../db/sql.ts'

/** The caller's claim about the returned rows. The database verifies it before it is logged. */
export type ChangeNotice = {
  readonly table: Table
  readonly action: ChangeAction
  readonly role: DatabaseRole
  readonly log: Appender
}

const ARGUMENTS = new Ident('svc_in')
const CALLED = new Ident('svc_called')

/** `args` is the client's JSON object, `given` the parameters in it. The statement returns the result as JSON text. */
export function buildCall(
  schema: Schema,
  fn: Fn,
  args: string | Slot,
  given: readonly Parameter[],
  notice: ChangeNotice | undefined,
): Sql {
  const passed = fn.parameters.some(({ isVariadic }) => isVariadic) ? fn.parameters : given
  const call = sql`${fn.ident}(${join(
    passed.map((parameter) => {
      const value = given.includes(parameter) ? argument(schema, parameter) : defaultOf(parameter)
      return sql`${parameter.isVariadic ? VARIADIC : EMPTY}${parameter.ident} => ${value}`
    }),
    COMMA,
  )})`
  // PostgreSQL parses the client's own text, so that no digit is lost.
  const definitions = given.map(
    (parameter) => sql`${parameter.ident} ${isSpatial(parameter) ? JSON_TYPE : parameter.castType}`,
  )
  const input =
    given.length > 0
      ? sql` from pg_catalog.json_to_record(${args}::pg_catalog.json) as ${ARGUMENTS}(${join(definitions, COMMA)})`
      : EMPTY
  if (fn.isVoid) return sql`select ${call}${input}`
  const answer = fn.returnsSet
    ? sql`coalesce(pg_catalog.json_agg(${CALLED}.svc_value)::text, '[]')`
    : sql`coalesce(${CALLED}.svc_value::text, 'null')`
  const called = sql`${CALLED} as (${resultOf(schema, fn, call, input)})`
  if (!notice) return sql`with ${called} select ${answer} from ${CALLED}`
  return sql`with ${called}, ${noted(schema, notice)} select ${answer}, ${logged(notice)} from ${CALLED}`
}

const JSON_TYPE = new Ident('pg_catalog', 'json')
const VARIADIC = sql`variadic `

/** Where arguments go by name, PostgreSQL finds a function with VARIADIC only if it is called with all that stand before. */
const defaultOf = ({ default: expression = 'null', castType }: Parameter): Sql =>
  sql`(${catalogueExpression(expression)})::${castType}`

function argument(schema: Schema, parameter: Parameter): Sql {
  const value = sql`${ARGUMENTS}.${parameter.ident}`
  return isSpatial(parameter) ? fromGeoJson(schema, parameter, sql`${value}::text`) : value
}

/** One row per result, as JSON. */
function resultOf(schema: Schema, fn: Fn, call: Sql, input: Sql): Sql {
  // A function that returns an anonymous record can only be called in the select list.
  const isAnonymousRecord = fn.returnType === 'SETOF record'
  if (!fn.returnsSet || isAnonymousRecord) {
    // `offset 0` keeps PostgreSQL from calling it once per column.
    const once = sql`(select ${call} as v${input} offset 0) as svc_result`
    const converted = convertedResult(schema, fn, ROW)
    if (fn.returnsRow && converted) {
      return sql`select case when svc_result.v is distinct from null then (
          select pg_catalog.to_json(j.*) from (select ${converted.select} from (select (svc_result.v).*) as ${converted.alias}) as j
        ) end as svc_value from ${once}`
    }
    const value = fn.resultForm ? valueJson(schema, fn.resultForm, sql`svc_result.v`) : sql`svc_result.v`
    return sql`select pg_catalog.to_json(${value}) as svc_value from ${once}`
  }
  // In FROM, columns get the names that the function declares; a scalar gets the name of the function.
  const alias = new Ident(fn.name)
  const shown = convertedResult(schema, fn, alias) ?? { select: sql`${alias}.*`, alias: sql`${alias}` }
  const from = input === EMPTY ? sql` from ${call} as ${shown.alias}` : sql`${input}, lateral ${call} as ${shown.alias}`
  return sql`select pg_catalog.to_json(svc_result.*) as svc_value from (select ${shown.select}${from}) as svc_result`
}

/** The columns of a result in their JSON form, and the alias of its row; undefined if no column needs conversion. */
function convertedResult(schema: Schema, fn: Fn, row: Ident): { select: Sql; alias: Sql } | undefined {
  if (fn.rowOf) {
    const select = convertedRow(schema, fn.rowOf, row)
    return select && { select, alias: sql`${row}` }
  }
  const scalar = fn.resultForm && !fn.returnsRow ? [{ name: fn.name, ...fn.resultForm }] : []
  const columns = fn.columns.length > 0 ? fn.columns : scalar
  if (!columns.some(isConverted)) return undefined
  // By position, because columns of a function may have no names.
  const at = columns.map((_, i) => new Ident(`svc_c${i + 1}`))
  const select = columns.map((column, i) => {
    const value = valueJson(schema, column, sql`${row}.${at[i] ?? row}`)
    return sql`${value} as ${new Ident(column.name || `column${i + 1}`)}`
  })
  const names = at.map((ident) => sql`${ident}`)
  return { select: join(select, COMMA), alias: sql`${row}(${join(names, COMMA)})` }
}

const NOTED = new Ident('svc_noted')
const GIVEN = new Ident('svc_given')

/**
 * Verifies the notice for each returned row. Created or updated: this transaction wrote the row, and the caller may see
 * it. Deleted: it no longer exists, and the caller saw it in this statement's snapshot, which is older than the call.
 */
function noted(schema: Schema, { table, action, role, log }: ChangeNotice): Sql {
  const key = table.primaryKey.map(
    ({ name }) => sql`${name}::text, ${CALLED}.svc_value::pg_catalog.jsonb -> ${name}::text`,
  )
  const same = table.primaryKey.map(
    (column) => sql`${ROW}.${column.ident} ${operator('=', column)} svc_key.${column.ident}`,
  )
  const before = sql`(select ${rowJsonb(schema, table, role, ROW)}::pg_catalog.json
    from ${table.ident} as ${ROW}, pg_catalog.jsonb_populate_record(null::${table.ident}, ${GIVEN}.pk) as svc_key
    where ${join(same, sql` and `)})`
  const isTrue =
    action === 'delete'
      ? sql`${log.wholeRow(table, sql`${GIVEN}.pk`)} is null`
      : sql`svc.wrote_visible_row(${table.ident.quoted}::pg_catalog.regclass, ${GIVEN}.pk)`
  return sql`${GIVEN} as materialized (
      select pg_catalog.jsonb_build_object(${join(key, COMMA)}) as pk from ${CALLED}
      where pg_catalog.json_typeof(${CALLED}.svc_value) = 'object'
    ), ${NOTED} as materialized (
      select ${GIVEN}.pk, ${before} as old_record, ${isTrue} as is_true from ${GIVEN}
    )`
}

function logged({ table, action, log }: ChangeNotice): Sql {
  const hadRow = action === 'create' ? sql`${NOTED}.old_record is null` : sql`${NOTED}.old_record is not null`
  const none = sql`null::pg_catalog.json[]`
  const key = table.primaryKey.map(({ name }) => name)
  const append = log.append(table, {
    action,
    keys: sql`pg_catalog.array_agg(svc.key_of(${NOTED}.pk, ${key}::text[]))`,
    records: action === 'delete' ? none : sql`pg_catalog.array_agg(${log.wholeRow(table, sql`${NOTED}.pk`)})`,
    oldRecords: action === 'create' ? none : sql`pg_catalog.array_agg(${NOTED}.old_record)`,
  })
  return sql`(select ${append} from ${NOTED} where ${NOTED}.is_true and ${hadRow} having pg_catalog.count(*) > 0)`
}
