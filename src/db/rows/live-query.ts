import type { Identity } from '../../core/identity.ts'
import type { Relayed } from '../db.ts'
import type { TableInSchema } from '../schema/row-image.ts'
import type { Column } from '../schema/snapshot.ts'
import { join, type Slot, type Sql, sql } from '../sql.ts'

/** An answer that is kept true, as the feature that gives it describes it. */
export type LiveQuery = {
  /** Everything that decides the answer but the caller and the data. */
  readonly key: string
  /** In the schema of now. Throws what the ordinary request would be refused with. */
  plan(who: Identity): Promise<LivePlan>
}

export type LivePlan = {
  /** The tables that it names, its own included. */
  readonly tables: readonly number[]
  /** How it is found which changes of its own table matter. Undefined: each of them reads it again. */
  readonly own: OwnTable | undefined
  /** Whether its rows have keys. Else all of them are sent again when one has changed. */
  readonly isKeyed: boolean
  /** `known`: digests of rows whose contents are not needed; without keys, that of all digests. Answers a LiveRow each. */
  read(known: readonly string[]): Sql
  /** What a failure of the statement means. */
  explain(error: unknown): unknown
}

export type OwnTable = TableInSchema & {
  /** Rows that are not held count too, as in a sum. */
  readonly isAggregate: boolean
  /** Two queries of one caller with the same one have the same answer to `concerns`. */
  readonly question: string
  /** Whether one of these rows, a JSON array of keys, is among those that the list chooses from: `true` or `false`. */
  concerns(keys: string): Sql
  /** Policies alone choose the rows. */
  readonly isUnfiltered: boolean
  /** Columns that must have these values, by their names. */
  readonly equal: ReadonlyMap<string, string>
}

/**
 * `n`: its place, -1 in the last one, whose `r` is the milliseconds it took. `k`: its key as JSON. `p`: its key as the change
 * log has it. `d`: a digest. `r`: the row as JSON, null where it is known.
 */
export type LiveRow = {
  readonly n: number
  readonly k: string | null
  readonly p: string | null
  readonly d: string | null
  readonly r: Relayed | null
}

/** SHA-256, because rows are written by others, who must not find two with the same digest. 128 bits of it are enough. */
const digestOf = (text: Sql): Sql =>
  sql`pg_catalog.encode(pg_catalog.substr(pg_catalog.sha256(pg_catalog.convert_to(${text}, 'UTF8')), 1, 16), 'hex')`

const MILLISECONDS = sql`pg_catalog.round(extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.transaction_timestamp()) * 1000)::text`

/**
 * The rows of `page`, which have the columns `j` (the row as text), `k`, `p` and `o` (what else decides its place), in
 * their order. Only what is not known is sent.
 */
export function liveRows(page: Sql, known: Slot, isKeyed: boolean): Sql {
  const numbered = sql`select svc_w.*, pg_catalog.row_number() over () as n from (${page}) as svc_w`
  const text = sql`pg_catalog.concat(svc_n.k, E'\n', svc_n.o, E'\n', svc_n.j)`
  const digested = sql`select svc_n.*, ${digestOf(text)} as d from (${numbered}) as svc_n`
  const all = sql`pg_catalog.string_agg(svc_d.d, '') over (order by svc_d.n rows between unbounded preceding and unbounded following)`
  const isKnown = isKeyed
    ? sql`svc_d.d operator(pg_catalog.=) any(${known}::text[])`
    : sql`${digestOf(all)} operator(pg_catalog.=) any(${known}::text[])`
  return sql`select svc_d.n::pg_catalog.int4 as n, svc_d.k, svc_d.p, svc_d.d, case when ${isKnown} then null else svc_d.j end as r
    from (${digested}) as svc_d
    union all select -1, null, null, null, ${MILLISECONDS}`
}

/** A key as clients name it: a value, or an array of a composite one. */
export const keyJson = (values: readonly Sql[], isArray = values.length > 1): Sql =>
  isArray
    ? sql`pg_catalog.json_build_array(${join(values)})::text`
    : sql`pg_catalog.to_json(${values[0] ?? sql`null::text`})::text`

/** Types whose values are equal only when their texts are, so that a value in the log can be compared without PostgreSQL. */
const COMPARABLE: Readonly<Record<string, RegExp>> = {
  uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
  int2: /^(0|-?[1-9]\d{0,4})$/,
  int4: /^(0|-?[1-9]\d{0,9})$/,
  int8: /^(0|-?[1-9]\d{0,14})$/,
  bool: /^(true|false)$/,
}

/** Whether values of a column can be compared with texts of the log at all. */
export const hasComparableType = ({ baseType }: Pick<Column, 'baseType'>): boolean =>
  Object.hasOwn(COMPARABLE, baseType)

/** Whether a value can be compared with texts of the log. */
export const isComparable = (column: Pick<Column, 'baseType'>, text: string): boolean =>
  hasComparableType(column) && (COMPARABLE[column.baseType]?.test(text) ?? false)
