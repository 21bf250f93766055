import { notFound } from '../../core/errors.ts'
import { findTable, findOrRefresh } from './lookup.ts'
import type { SchemaCache, Table } from './snapshot.ts'

/** A table by the operator's words. */
export async function requireTable(cache: SchemaCache, name: string, schema: string | undefined): Promise<Table> {
  const asked = schema ? `${schema}.${name}` : name
  const found = await findOrRefresh(cache, (snapshot) => findTable(snapshot, asked))
  if (!found) throw notFound('table not found', 'table_not_found')
  return found
}
