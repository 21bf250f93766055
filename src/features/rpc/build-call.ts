import { appendChanges, type ChangeAction } from '../../db/changes/append.ts'
import { convertedRow } from '../../db/schema/row-json.ts'
import type { Fn, Schema, Table } from '../../db/schema/snapshot.ts'
import { COMMA, EMPTY, Ident, join, type Sql, sql } from '../../db/sql.ts'

/** Every returned row is also told to the readers of the change log, as this change of this table. */
export type Notice = { readonly table: Table; readonly action: ChangeAction; readonly actor: string }

const ARGUMENTS = new Ident('svc_in')
const CALLED = new Ident('svc_called')
const ROW = new Ident('svc_t')

/** `args` is the JSON object of the client, `supplied` the names in it. Answers the result as JSON text. */
export function buildCall(
  schema: Schema,
  fn: Fn,
  args: string,
  supplied: readonly string[],
  notice: Notice | undefined,
): Sql {
  const given = fn.parameters.filter(({ name }) => supplied.includes(name))
  const call = sql`${fn.ident}(${join(
    given.map(({ ident, isVariadic }) => {
      const value = sql`${ident} => ${ARGUMENTS}.${ident}`
      return isVariadic ? sql`variadic ${value}` : value
    }),
    COMMA,
  )})`
  // Typed by PostgreSQL from the client's own text, so that no digit is lost.
  const definitions = given.map(({ ident, castType }) => sql`${ident} ${castType}`)
  const input =
    given.length > 0
      ? sql` from pg_catalog.json_to_record(${args}::pg_catalog.json) as ${ARGUMENTS}(${join(definitions, COMMA)})`
      : EMPTY
  if (fn.isVoid) return sql`select ${call}${input}`
  const answer = fn.returnsSet
    ? sql`coalesce(pg_catalog.json_agg(${CALLED}.svc_value)::text, '[]')`
    : sql`coalesce(${CALLED}.svc_value::text, 'null')`
  return sql`with ${CALLED} as (${resultOf(schema, fn, call, input)})${notice ? noted(notice) : EMPTY}
    select ${answer} from ${CALLED}`
}

/** One row per result, as JSON. */
function resultOf(schema: Schema, fn: Fn, call: Sql, input: Sql): Sql {
  // A record that has no columns before it is called can only be called in the select list.
  const isAnonymousRecord = fn.returnType === 'SETOF record'
  if (!fn.returnsSet || isAnonymousRecord) {
    const converted = fn.rowOf && convertedRow(schema, fn.rowOf, ROW)
    // Called once (`offset 0`), though each of its columns is asked for.
    if (converted) {
      return sql`select case when svc_result.v is distinct from null then (
          select pg_catalog.to_json(j.*) from (select ${converted} from (select (svc_result.v).*) as ${ROW}) as j
        ) end as svc_value from (select ${call} as v${input} offset 0) as svc_result`
    }
    return sql`select pg_catalog.to_json(svc_result.v) as svc_value from (select ${call} as v${input}) as svc_result`
  }
  // In FROM the columns get the names the function declared; a plain scalar gets that of the function.
  const alias = new Ident(fn.name)
  const columns = (fn.rowOf && convertedRow(schema, fn.rowOf, alias)) ?? sql`${alias}.*`
  const from = input === EMPTY ? sql` from ${call} as ${alias}` : sql`${input}, lateral ${call} as ${alias}`
  return sql`select pg_catalog.to_json(svc_result.*) as svc_value from (select ${columns}${from}) as svc_result`
}

function noted({ table, action, actor }: Notice): Sql {
  const record = sql`svc_row.record`
  const none = sql`null::pg_catalog.jsonb`
  const key = table.primaryKey.map(({ name }) => sql`${name}::text, ${record} -> ${name}::text`)
  return sql`, svc_logged as (${appendChanges({
    action,
    table,
    actor,
    pk: sql`pg_catalog.jsonb_build_object(${join(key, COMMA)})`,
    record: action === 'delete' ? none : record,
    oldRecord: action === 'delete' ? record : none,
    from: sql`(select ${CALLED}.svc_value::pg_catalog.jsonb as record from ${CALLED}) as svc_row
      where pg_catalog.jsonb_typeof(${record}) = 'object'`,
  })})`
}
