import { GraphQLEnumType, GraphQLInputObjectType, GraphQLList, GraphQLNonNull } from 'graphql'
import type { Conflict } from '../../db/rows/upsert.ts'
import type { Column } from '../../db/schema/snapshot.ts'
import { isEnumValue, type NamedTable } from './names.ts'
import type { WhereInput } from './where.ts'

/** Unique keys with a valid GraphQL name, all of whose columns the role can read. */
const keysOf = (named: NamedTable): ReadonlyMap<string, readonly Column[]> =>
  new Map(
    named.table.uniqueKeys
      .filter(({ name, columns }) => isEnumValue(name) && columns.every((column) => named.columns.has(column)))
      .map(({ name, columns }) => [name, columnsOf(named.columns, columns)]),
  )

const columnsOf = (columns: ReadonlyMap<string, Column>, names: readonly string[]): Column[] =>
  names.flatMap((name) => columns.get(name) ?? [])

/** What a row that is there can take over: PostgreSQL reads it from the row that was to be inserted. */
const merging = (named: NamedTable): string[] =>
  [...named.writable('update').keys()].filter((name) => named.columns.has(name))

export const hasUniqueKeys = (named: NamedTable): boolean => keysOf(named).size > 0

/** The type `{constraint, update_columns}`; `free` turns suffixes into unused type names. */
export function onConflictType(
  named: NamedTable,
  name: string,
  free: (suffix: string) => string,
): GraphQLInputObjectType {
  const enumOf = (suffix: string, values: Iterable<string>): GraphQLEnumType =>
    new GraphQLEnumType({
      name: free(suffix),
      values: Object.fromEntries([...values].map((value) => [value, {}])),
    })
  const columns = merging(named).filter(isEnumValue)
  return new GraphQLInputObjectType({
    name,
    fields: {
      constraint: { type: new GraphQLNonNull(enumOf('constraint', keysOf(named).keys())) },
      ...(columns.length > 0 && {
        update_columns: {
          type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(enumOf('update_column', columns)))),
          defaultValue: [],
          description: 'what a row that is there takes over; empty: it stays as it is',
        },
      }),
    },
  })
}

/** Reads the `on_conflict` argument of an insert, already checked against its type. */
export function conflictArgument(named: NamedTable, given: unknown): Conflict | undefined {
  if (given === undefined || given === null) return undefined
  const { constraint, update_columns: merged } = given as WhereInput
  const on = keysOf(named).get(constraint as string)
  if (!on) throw new TypeError(`no unique key ${String(constraint)}`)
  return { on, merged: columnsOf(named.columns, [...new Set((merged ?? []) as string[])]) }
}
