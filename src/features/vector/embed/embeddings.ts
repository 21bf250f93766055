import type { AuditSource } from '../../../core/audit-entry.ts'
import { badRequest, notFound } from '../../../core/errors.ts'
import { SYSTEM } from '../../../core/identity.ts'
import { audited, auditStatement, rowBefore } from '../../../db/audit.ts'
import type { Db } from '../../../db/db.ts'
import type { Queue } from '../../../db/queue/queue.ts'
import { requireTable } from '../../../db/schema/require-table.ts'
import type { SchemaCache } from '../../../db/schema/snapshot.ts'
import { NO_PROVIDER } from '../embedding/provider.ts'
import { textColumnOf, vectorColumnOf } from './columns.ts'
import { addEmbedding, allEmbeddings, EMBEDDING_KIND, oneEmbedding, removeEmbedding, watch } from './sql.ts'

export type EmbeddingInput = { table: string; columns: string[]; vector_column: string; schema?: string }
type Deps = { db: Db; schema: SchemaCache; queue: Queue; hasProvider: boolean }

/** Administration of vector columns that are kept filled. */
export function createEmbeddings({ db, schema, queue, hasProvider }: Deps) {
  return {
    all: async (): Promise<string> => (await db.fly(SYSTEM, allEmbeddings)) ?? '',

    async add(input: EmbeddingInput, act: AuditSource): Promise<string> {
      const table = await requireTable(schema, input.table, input.schema)
      const columns = [...new Set(input.columns)]
      if (columns.length === 0) throw badRequest('columns is required')
      for (const name of columns) textColumnOf(table, name)
      const vector = vectorColumnOf(table, input.vector_column)
      if (table.kind !== 'table' && table.kind !== 'partitioned_table')
        throw badRequest('only tables can be kept filled')
      if (table.primaryKey.length === 0) throw badRequest('table has no primary key', 'no_primary_key')
      if (!hasProvider) throw badRequest(NO_PROVIDER, 'provider_not_configured')
      const made = { schema: table.schema, table: table.name, columns, vector_column: vector.name }
      const text = await db.tx(SYSTEM, async (tx) => {
        await tx.run(watch(table))
        const added = (await tx.fly(addEmbedding(made))) ?? ''
        const { id } = JSON.parse(added) as { id: string }
        await tx.run(queue.push(EMBEDDING_KIND, { embedding: id }, { group: id }))
        await tx.run(auditStatement(act.audit({ target: id, newValues: made })))
        return added
      })
      queue.wake(EMBEDDING_KIND)
      return text
    },

    async remove(id: string, act: AuditSource): Promise<void> {
      await db.tx(SYSTEM, async (tx) => {
        const removal = audited(act.audit(), removeEmbedding(id), rowBefore(oneEmbedding(id)))
        if ((await tx.run(removal)) === 0) throw notFound('embedding not found', 'embedding_not_found')
        await tx.run(queue.clear(EMBEDDING_KIND, id))
      })
    },
  }
}
