import type { Appender } from '../changes/append.ts'
import type { Column } from '../schema/snapshot.ts'
import { columnsFor } from '../schema/viewer.ts'
import { COMMA, Ident, join, ROW, type Sql, sql } from '../sql.ts'
import type { Place } from './place.ts'
import { MADE } from './write.ts'

const PACKED = new Ident('svc_packed')
const COUNTED = new Ident('svc_counted')

/** Types whose JSON is always jsonb too. That of json is not: it may hold `\u0000`, and must be refused when it is written. */
const PACKABLE = new Set([
  ...['bool', 'bytea', 'uuid', 'text', 'varchar', 'bpchar', 'jsonb'],
  ...['int2', 'int4', 'int8', 'float4', 'float8', 'numeric'],
  ...['date', 'time', 'timetz', 'timestamp', 'timestamptz', 'interval'],
])

const isPackable = ({ baseType, typeKind, isArray }: Column): boolean =>
  isArray ? PACKABLE.has(baseType.slice(1)) : typeKind === 'e' || PACKABLE.has(baseType)

/** Whether many new rows can be one entry of the log: the caller sees them whole, and readers can make images of them. */
export const canPack = ({ table, viewer }: Place): boolean =>
  columnsFor(table, viewer.role).length === table.columns.size && [...table.columns.values()].every(isPackable)

/** What RETURNING hands on to `logPacked`. */
export const packedOutcome = ({ table }: Place): Sql =>
  join(
    [...table.columns.values()].map(({ ident }) => sql`${ROW}.${ident}`),
    COMMA,
  )

/** Answers how many rows were made, and logs them as one entry. */
export function logPacked({ table }: Place, log: Appender): Sql {
  const cells = [...table.columns.values()].map(({ ident }) => sql`pg_catalog.json_agg(${MADE}.${ident}) as ${ident}`)
  const append = log.appendCreates(table, sql`${COUNTED}.made`, sql`pg_catalog.to_json(${PACKED}.*)`)
  return sql`select ${COUNTED}.made::text, ${append} from (select pg_catalog.count(*) as made from ${MADE}) as ${COUNTED},
    (select ${join(cells, COMMA)} from ${MADE}) as ${PACKED}`
}
