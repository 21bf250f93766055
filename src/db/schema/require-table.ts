import { notFound } from '../../core/errors.ts'
import { findOrRefresh, findTable } from './lookup.ts'
import type { SchemaCache, Table } from './snapshot.ts'

/** A table by a name from an admin request; 404 if there is none. */
export async function requireTable(cache: SchemaCache, name: string, schema: string | undefined): Promise<Table> {
  const fullName = schema ? `${schema}.${name}` : name
  const found = await findOrRefresh(cache, (snapshot) => findTable(snapshot, fullName))
  if (!found) throw notFound('table not found', 'table_not_found')
  return found
}
