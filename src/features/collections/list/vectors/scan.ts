import type { TableView } from '../../../../db/rows/table-view.ts'
import type { Column, Schema, Table } from '../../../../db/schema/snapshot.ts'
import { type Sql, sql } from '../../../../db/sql.ts'

/** Limit of rows that an index scan visits for one page. */
const MAX_TUPLES = '100000'

/** IVFFlat's default of one list misses most of the nearest rows. */
const PROBES = sql`pg_catalog.set_config('ivfflat.probes', '10', true)`

/** From pgvector 0.8 on, an index scan continues until the page is full despite filters and policies. */
const ITERATIVE = sql`select pg_catalog.set_config('hnsw.iterative_scan', 'strict_order', true),
  pg_catalog.set_config('hnsw.max_scan_tuples', ${MAX_TUPLES}, true),
  pg_catalog.set_config('ivfflat.iterative_scan', 'relaxed_order', true), ${PROBES}`

/** Before 0.8 it returns at most `ef_search` rows, and those that are filtered out are missing. */
const WIDE = sql`select pg_catalog.set_config('hnsw.ef_search', '1000', true), ${PROBES}`

/** Settings of the index scan, applied before the list is read. */
export function scanSettings(column: Column, { pgVector }: Schema): Sql | undefined {
  if (!column.isVector || !pgVector) return undefined
  return scansIteratively(pgVector) ? ITERATIVE : WIDE
}

function scansIteratively({ version }: { version: string }): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 0 || minor >= 8
}

export const isIndexed = (table: Table, column: Column): boolean =>
  hasIndex(table, column, 'hnsw') || hasIndex(table, column, 'ivfflat')

const hasIndex = (table: Table, { name }: Column, wanted: string): boolean =>
  table.indexes.some(({ method, columns }) => method === wanted && columns.includes(name))

/** Rows that HNSW finds in its first scan: the default of `hnsw.ef_search`. */
const FIRST_SCAN_ROWS = 40

/**
 * Iterative scans cost HNSW a seventh of the whole request. If nothing filters rows, its first scan fills a page, unless
 * there are deleted rows.
 */
export const fillsInFirstScan = ({ schema, table }: TableView, column: Column, perPage: number): boolean =>
  perPage <= FIRST_SCAN_ROWS &&
  schema.pgVector !== undefined &&
  scansIteratively(schema.pgVector) &&
  hasIndex(table, column, 'hnsw') &&
  !hasIndex(table, column, 'ivfflat')
