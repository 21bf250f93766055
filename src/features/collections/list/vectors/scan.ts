import type { TableView } from '../../../../db/rows/table-view.ts'
import type { Column, Schema, Table } from '../../../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../../../db/sql.ts'

/** Rows an index may look at for one page before it gives up. */
const MAX_TUPLES = '100000'

/** Of one list alone, as IVFFlat would have it, most of the nearest are missing. */
const PROBES = sql`pg_catalog.set_config('ivfflat.probes', '10', true)`

/** From pgvector 0.8 on an index goes on searching while filters and policies leave the page short. */
const ITERATIVE = sql`select pg_catalog.set_config('hnsw.iterative_scan', 'strict_order', true),
  pg_catalog.set_config('hnsw.max_scan_tuples', ${MAX_TUPLES}, true),
  pg_catalog.set_config('ivfflat.iterative_scan', 'relaxed_order', true), ${PROBES}`

/** Before that it finds as many rows as it was told to, and what is filtered away of them is missing. */
const WIDE = sql`select pg_catalog.set_config('hnsw.ef_search', '1000', true), ${PROBES}`

/** What an index over the column must be told before the list is read, should there be one. */
export function scanSettings(column: Column, { pgVector }: Schema): Sql | undefined {
  if (!column.isVector || !pgVector) return undefined
  return goesOn(pgVector) ? ITERATIVE : WIDE
}

function goesOn({ version }: { version: string }): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 0 || minor >= 8
}

export const isIndexed = (table: Table, column: Column): boolean =>
  hasIndex(table, column, 'hnsw') || hasIndex(table, column, 'ivfflat')

const hasIndex = (table: Table, { name }: Column, wanted: string): boolean =>
  table.indexes.some(({ method, columns }) => method === wanted && columns.includes(name))

/** Rows that HNSW finds in its first look (`hnsw.ef_search`), unless somebody set it. */
const FIRST_LOOK = 40

/**
 * To be ready to go on searching costs HNSW a seventh of the whole request. Where nothing takes rows away, its first look
 * fills a page, unless deleted rows are in the way.
 */
export const fillsAtOnce = ({ schema, table }: TableView, column: Column, perPage: number): boolean =>
  perPage <= FIRST_LOOK &&
  schema.pgVector !== undefined &&
  goesOn(schema.pgVector) &&
  hasIndex(table, column, 'hnsw') &&
  !hasIndex(table, column, 'ivfflat')
