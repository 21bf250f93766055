import type { DatabaseRole } from '../../core/identity.ts'
import type { Column, Schema, Table } from '../schema/snapshot.ts'
import { SpatialSql } from '../schema/spatial/build.ts'
import type { SpatialArg, SpatialFilter } from '../schema/spatial/parse.ts'
import { integerLiteral, ROW, type Sql, sql } from '../sql.ts'
import { type Candidates, hidesRows, isReadByCtid } from './candidates.ts'

const isIndexed = (table: Table, { name }: Column): boolean =>
  table.indexes.some(({ method, columns }) => method === 'gist' && columns[0] === name)

/** A `tid[]` of rows that may fulfil the filter, where a policy would keep PostgreSQL from the GiST index. */
export function spatialCandidates(
  filter: SpatialFilter,
  column: Column,
  { schema, table, role }: { schema: Schema; table: Table; role: DatabaseRole },
  candidates: Candidates,
): Sql | undefined {
  if (!isReadByCtid(table, role) || !hidesRows(table, role) || !isIndexed(table, column)) return undefined
  const params: Sql[] = []
  const addParam = (value: SpatialArg): Sql => {
    params.push(sql`${value}`)
    return sql`$1[${integerLiteral(params.length)}]`
  }
  const withParams: SpatialFilter = {
    ...filter,
    values: filter.name === 'near' ? filter.values.map(addParam) : [],
    boxes: [],
    candidates: filter.candidates.map((box) => box.map(addParam)),
  }
  const condition = new SpatialSql(schema, column, ROW).candidates(withParams)
  return condition && candidates.of(table, condition, params)
}
