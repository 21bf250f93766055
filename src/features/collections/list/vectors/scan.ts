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
  const [major = 0, minor = 0] = pgVector.version.split('.').map(Number)
  return major > 0 || minor >= 8 ? ITERATIVE : WIDE
}

export const isIndexed = (table: Table, { name }: Column): boolean =>
  table.indexes.some(({ method, columns }) => (method === 'hnsw' || method === 'ivfflat') && columns.includes(name))
