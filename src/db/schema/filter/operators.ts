import { type Sql, sql } from '../../sql.ts'
import type { Column, Comparison } from '../snapshot.ts'

// Qualified, because an operator in an exposed schema could match a type more closely.
const builtIn: Record<Comparison, Sql> = {
  '=': sql`operator(pg_catalog.=)`,
  '!=': sql`operator(pg_catalog.<>)`,
  '>': sql`operator(pg_catalog.>)`,
  '>=': sql`operator(pg_catalog.>=)`,
  '<': sql`operator(pg_catalog.<)`,
  '<=': sql`operator(pg_catalog.<=)`,
}
const onSearchPath: Record<Comparison, Sql> = {
  '=': sql`=`,
  '!=': sql`<>`,
  '>': sql`>`,
  '>=': sql`>=`,
  '<': sql`<`,
  '<=': sql`<=`,
}

const ORDERED_TYPES = new Set(
  (
    'bool int2 int4 int8 float4 float8 numeric money text varchar bpchar char name uuid date time timetz timestamp ' +
    'timestamptz interval inet cidr macaddr macaddr8 bit varbit oid tsvector tsquery pg_lsn xid8'
  ).split(' '),
)

/** Types of extensions, such as citext, have operators of their own. */
const hasOwnOperators = (column: Column): boolean =>
  !column.isArray &&
  column.typeKind === 'b' &&
  !column.castType.quoted.startsWith('"pg_catalog".') &&
  !ORDERED_TYPES.has(column.baseType)

/** For values of these columns' types; of two columns, each may be of another type. */
export function operator(op: Comparison, column: Column, other = column): Sql {
  const own = column.operators?.[op]
  // A citext and a text are compared as texts, in foreign keys too.
  if (own && own.text === other.operators?.[op]?.text) return own
  return hasOwnOperators(column) || hasOwnOperators(other) ? onSearchPath[op] : builtIn[op]
}

/** A row type whose fields are all null `is null`, though it is a value; `is distinct from` sees the difference. */
export function isNull({ typeKind, isArray }: Column, value: Sql, negated = false): Sql {
  if (typeKind === 'c' && !isArray)
    return negated ? sql`${value} is distinct from null` : sql`${value} is not distinct from null`
  return negated ? sql`${value} is not null` : sql`${value} is null`
}

const INCOMPARABLE = new Set('json jsonb bytea xml point line lseg box path polygon circle'.split(' '))

/** Columns that can only be compared with null. */
export const isIncomparable = (column: Column): boolean =>
  INCOMPARABLE.has(column.baseType) || column.isGeometry || column.isGeography || column.isVector

const UNORDERED = new Set('json xml point line lseg box path polygon circle xid cid tid aclitem'.split(' '))

export const isSortable = (column: Column): boolean =>
  !UNORDERED.has(column.baseType) && !column.isGeometry && !column.isGeography
