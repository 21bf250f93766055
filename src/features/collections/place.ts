import { AppError, notFound } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import { isMissingTable, isOutdated } from '../../db/pg-errors.ts'
import type { Place } from '../../db/rows/place.ts'
import { findTable, isVisible } from '../../db/schema/lookup.ts'
import type { Schema, SchemaCache } from '../../db/schema/snapshot.ts'
import { isAllowed, type Viewer, viewerOf } from '../../db/schema/viewer.ts'

/** Unknown, not exposed, ours, and not granted: all the same to the caller. */
const collectionNotFound = (name: string) => notFound(`collection not found: ${name}`)

function locate(schema: Schema, name: string, viewer: Viewer): Place | undefined {
  const table = findTable(schema, name)
  if (!table || !isVisible(table, viewer.role)) return undefined
  if (!isAllowed(schema, table, viewer)) {
    throw new AppError('forbidden', `api key does not have access to table: ${name}`)
  }
  return { schema, table, viewer }
}

/**
 * Runs `work` on the table called `name`. The snapshot may lag behind the database by a moment, so a miss looks once
 * more before it is believed.
 */
export async function atTable<T>(
  cache: SchemaCache,
  name: string,
  who: Identity,
  work: (place: Place) => Promise<T>,
): Promise<T> {
  const viewer = viewerOf(who)
  const schema = cache.read()
  const place = locate(schema, name, viewer)
  try {
    if (place) return await work(place)
  } catch (error) {
    if (!isOutdated(error)) throw error
    if ((await cache.refreshIfStale()) === schema) throw stillMissing(error, name)
  }
  const fresh = locate(place ? cache.read() : await cache.refreshIfStale(), name, viewer)
  if (!fresh) throw collectionNotFound(name)
  return work(fresh).catch((error: unknown) => {
    throw stillMissing(error, name)
  })
}

const stillMissing = (error: unknown, name: string): unknown =>
  isMissingTable(error) ? collectionNotFound(name) : error

export function requireWritable({ table }: Place, how: 'insertable' | 'updatable'): void {
  if (!table[how]) {
    throw new AppError('method_not_allowed', 'write operations not allowed on view', { headers: { Allow: 'GET' } })
  }
}
