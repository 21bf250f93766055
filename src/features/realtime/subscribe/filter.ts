import type { Identity } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { isBadValue } from '../../../db/pg-errors.ts'
import { compileFilter } from '../../../db/schema/filter/filter.ts'
import { invalidFilter } from '../../../db/schema/filter/parse.ts'
import { rowAlias, rowImage, type TableInSchema } from '../../../db/schema/row-image.ts'
import { type Viewer, viewerOf } from '../../../db/schema/viewer.ts'
import { type Sql, sql } from '../../../db/sql.ts'

export function compile(text: string, { schema, table }: TableInSchema, viewer: Viewer): Sql {
  const filter = compileFilter(text, table, rowAlias(table), { schema, viewer, withoutRelations: true })
  if (!filter) throw invalidFilter('empty')
  return filter
}

/** PostgreSQL evaluates the literals, so that a stream never starts with a filter that always fails. */
export async function tryFilter(db: Db, who: Identity, text: string, at: TableInSchema): Promise<void> {
  const filter = compile(text, at, viewerOf(who))
  try {
    await db.fly(who, sql`select (${filter})::text from ${rowImage(at, sql`'{}'::jsonb`)}`)
  } catch (error) {
    if (isBadValue(error)) throw invalidFilter((error as Error).message)
    throw error
  }
}
