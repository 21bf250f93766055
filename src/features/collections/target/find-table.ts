import { AppError, notFound } from '../../../core/errors.ts'
import type { Identity } from '../../../core/identity.ts'
import { isMissingTable, isOutdated } from '../../../db/pg-errors.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { nearTable } from '../../../db/schema/did-you-mean.ts'
import { findOrRefresh, findTable, isVisible } from '../../../db/schema/lookup.ts'
import type { Schema, SchemaCache } from '../../../db/schema/snapshot.ts'
import { isAllowed, type Viewer, viewerOf } from '../../../db/schema/viewer.ts'

/** One error for unknown, unexposed, internal and ungranted tables, so that it reveals none of them. */
export const collectionNotFound = (schema: Schema, name: string, viewer: Viewer) =>
  notFound(`collection not found: ${name}`, 'collection_not_found', nearTable(schema, name, viewer))

function locate(schema: Schema, name: string, viewer: Viewer): TableView | undefined {
  const table = findTable(schema, name)
  if (!table || !isVisible(table, viewer.role)) return undefined
  if (!isAllowed(schema, table, viewer)) {
    throw new AppError('insufficient_scope', `api key does not have access to table: ${name}`)
  }
  return { schema, table, viewer }
}

/** How often a statement is made anew for a table whose columns change meanwhile. */
const MAX_TRIES = 5

/** Runs `work` on the table called `name`. If it is missing or has changed, the schema is read again and `work` retried. */
export async function onTable<T>(
  cache: SchemaCache,
  name: string,
  who: Identity,
  work: (target: TableView) => Promise<T>,
): Promise<T> {
  const viewer = viewerOf(who)
  let outdated: unknown
  const attempt = async (schema: Schema): Promise<{ value: T } | undefined> => {
    const target = locate(schema, name, viewer)
    if (!target) {
      outdated = undefined
      return undefined
    }
    try {
      return { value: await work(target) }
    } catch (error) {
      if (!isOutdated(error)) throw error
      outdated = error
      return undefined
    }
  }
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const answer = await findOrRefresh(cache, attempt)
    if (answer) return answer.value
    // What the newest snapshot does not have is not there.
    if (outdated === undefined) break
  }
  throw outdated === undefined || isMissingTable(outdated) ? collectionNotFound(cache.read(), name, viewer) : outdated
}

export function requireWritable({ table }: TableView, how: 'insertable' | 'updatable'): void {
  if (!table[how]) {
    const what = table.hasRules ? 'table with rules' : 'view'
    throw new AppError('view_not_writable', `write operations not allowed on ${what}`, { headers: { Allow: 'GET' } })
  }
}
