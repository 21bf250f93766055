import { badRequest, notFound } from '../../core/errors.ts'
import { findTable } from '../../db/schema/lookup.ts'
import type { Column, SchemaCache, Table } from '../../db/schema/snapshot.ts'
import { holdsVectors, notAVector } from '../../db/schema/vectors.ts'

/** A table by the operator's words; the snapshot may lag behind the database, so a miss looks once more. */
export async function tableOf(cache: SchemaCache, name: string, schema: string | undefined): Promise<Table> {
  const asked = schema ? `${schema}.${name}` : name
  const found = findTable(cache.read(), asked) ?? findTable(await cache.refreshIfStale(), asked)
  if (!found) throw notFound('table not found')
  return found
}

export function vectorColumnOf(table: Table, name: string): Column {
  const column = table.columns.get(name)
  if (!column || !holdsVectors(column)) throw badRequest(notAVector(name))
  return column
}
