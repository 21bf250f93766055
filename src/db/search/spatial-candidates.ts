import type { Column, Schema, Table } from '../schema/snapshot.ts'
import { SpatialSql } from '../schema/spatial/build.ts'
import type { SpatialArg, SpatialFilter } from '../schema/spatial/parse.ts'
import { integerLiteral, ROW, type Sql, sql } from '../sql.ts'
import { type Candidates, hidesRows, isFlat } from './candidates.ts'

const isIndexed = (table: Table, { name }: Column): boolean =>
  table.indexes.some(({ method, columns }) => method === 'gist' && columns[0] === name)

/** Where a policy would keep PostgreSQL from the GiST index of the column: a `tid[]` of what may fulfil the filter. */
export function spatialCandidates(
  filter: SpatialFilter,
  column: Column,
  { schema, table, role }: { schema: Schema; table: Table; role: string },
  candidates: Candidates,
): Sql | undefined {
  if (!isFlat(table) || !hidesRows(table, role) || !isIndexed(table, column)) return undefined
  const given: Sql[] = []
  const placeOf = (value: SpatialArg): Sql => {
    given.push(sql`${value}`)
    return sql`$1[${integerLiteral(given.length)}]`
  }
  const asked: SpatialFilter = {
    ...filter,
    values: filter.name === 'near' ? filter.values.map(placeOf) : [],
    boxes: [],
    candidates: filter.candidates.map((box) => box.map(placeOf)),
  }
  const condition = new SpatialSql(schema, column, ROW).candidates(asked)
  return condition && candidates.of(table, condition, given)
}
