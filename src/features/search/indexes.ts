import type { AuditSource } from '../../core/audit-entry.ts'
import { AppError, badRequest, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { auditedEffect } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { requireTable } from '../../db/schema/require-table.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import {
  fullTextKey,
  hasGinIndex,
  type TextSearchConfig,
  textColumns,
  trigramKeys,
} from '../../db/search/search-text.ts'
import { type ConcurrentIndexes, indexName } from '../../db/setup/concurrent-index.ts'
import { sql } from '../../db/sql.ts'
import { allTextIndexes, schemaOfTextIndex } from './sql.ts'

export const TEXT_INDEX_METHODS = ['fulltext', 'trigram'] as const
type IndexMethod = (typeof TEXT_INDEX_METHODS)[number]

export type TextIndexInput = { table: string; method: IndexMethod; schema?: string; index_name?: string }

export type IndexesDeps = {
  db: Db
  schema: SchemaCache
  indexes: ConcurrentIndexes
  textSearchConfig: TextSearchConfig
  /** Installs pg_trgm, or throws. */
  needTrigrams: () => Promise<void>
}

export function createTextIndexes({ db, schema, indexes, textSearchConfig, needTrigrams }: IndexesDeps) {
  const { schemas } = schema.read()
  return {
    async all(): Promise<string> {
      return (await db.fly(SYSTEM, allTextIndexes(schemas))) ?? ''
    },

    async build({ method, ...input }: TextIndexInput, act: AuditSource) {
      if (method === 'trigram') await needTrigrams()
      // The snapshot may be older than an index of that name.
      await schema.refreshIfStale()
      const table = await requireTable(schema, input.table, input.schema)
      if (textColumns(table.columns.values()).length === 0) throw badRequest('table has no text columns')
      const name = indexName(input.index_name, [table.name, method])
      const key = method === 'fulltext' ? fullTextKey(textSearchConfig, table) : trigramKeys(schema.read(), table)
      const isSame = hasGinIndex({ indexes: table.indexes.filter((existing) => existing.name === name) }, key)
      const index = {
        table,
        name,
        using: method === 'fulltext' ? sql`using gin ((${key}))` : sql`using gin (${key})`,
        isSame: sql`${isSame}::boolean`,
      }
      const made = { index_name: name, method, table: table.name }
      // CONCURRENTLY cannot run in a transaction with the audit entry, here and below.
      await auditedEffect(db, act.audit({ target: name, newValues: made }), () => indexes.build(index))
      // PostgreSQL has statistics of an indexed expression only after ANALYZE.
      await db.run(SYSTEM, sql`analyze ${table.ident}`, { kind: 'apart' }).catch((error: unknown) => {
        if (!(error instanceof AppError)) throw error
      })
      await schema.reload()
      return made
    },

    async drop(name: string, act: AuditSource): Promise<void> {
      const found = await db.fly(SYSTEM, schemaOfTextIndex(name, schemas))
      if (found === null) throw notFound('index not found', 'index_not_found')
      await auditedEffect(db, act.audit({ target: name }), () => indexes.drop(found, name))
      await schema.reload()
    },
  }
}
