import { badRequest } from '../../../../../core/errors.ts'
import { boundedArray, partsInside, partsOfEach } from '../../../../../db/rows/answer-size.ts'
import type { TableView } from '../../../../../db/rows/table-view.ts'
import { nearColumn } from '../../../../../db/schema/did-you-mean.ts'
import { isIncomparable, isSortable } from '../../../../../db/schema/filter/operators.ts'
import type { Column } from '../../../../../db/schema/snapshot.ts'
import { columnFor } from '../../../../../db/schema/viewer.ts'
import { COMMA, join, ROW, type Sql, sql } from '../../../../../db/sql.ts'
import type { Stage } from '../stage.ts'

const MAX_BUCKETS = sql`1000`

/** Counts each value of the columns over all rows of the list. */
export function planFacets(names: readonly string[], { table, viewer }: TableView): Stage {
  const columns = names.map((name) => {
    const column = columnFor(table, name, viewer.role)
    if (!column)
      throw badRequest(
        `unknown column "${name}" in facets parameter`,
        'unknown_column',
        nearColumn(table, name, viewer),
      )
    if (!isCountable(column)) throw badRequest(`unsupported facet column "${name}" with type "${column.type}"`)
    return column
  })
  return {
    envelope: (rows) => {
      const facets = columns.map((column) => {
        const found = boundedArray(buckets(column, rows), partsOfEach(partsInside(1), columns.length))
        return sql`coalesce(${found}, '[]'::pg_catalog.json) as ${column.ident}`
      })
      return sql`',"facets":', (select pg_catalog.to_json(f.*)::text from (select ${join(facets, COMMA)}) as f)`
    },
  }
}

const COMPOSITE = 'c'

const isCountable = (column: Column): boolean =>
  !column.isArray && column.typeKind !== COMPOSITE && !isIncomparable(column) && isSortable(column)

const buckets = ({ ident }: Column, rows: Sql): Sql =>
  sql`select ${ROW}.${ident} as value, pg_catalog.count(*) as count from ${rows}
    group by ${ROW}.${ident} order by pg_catalog.count(*) desc, ${ROW}.${ident} limit ${MAX_BUCKETS}`
