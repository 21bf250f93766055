import { notFound } from '../../core/errors.ts'
import { findTable } from './lookup.ts'
import type { SchemaCache, Table } from './snapshot.ts'

/** A table by the operator's words; the snapshot may lag behind the database, so a miss looks once more. */
export async function tableOf(cache: SchemaCache, name: string, schema: string | undefined): Promise<Table> {
  const asked = schema ? `${schema}.${name}` : name
  const found = findTable(cache.read(), asked) ?? findTable(await cache.refreshIfStale(), asked)
  if (!found) throw notFound('table not found')
  return found
}
