import type { AuditSource } from '../../core/audit-entry.ts'
import { badRequest, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { auditedEffect } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { requireTable } from '../../db/schema/require-table.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import { type ConcurrentIndexes, indexName } from '../../db/setup/concurrent-index.ts'
import { EMPTY, Ident, integerLiteral, type Sql, sql } from '../../db/sql.ts'
import { vectorColumnOf } from './embed/columns.ts'
import { allVectorIndexes, hasOperators, schemaOfVectorIndex } from './sql.ts'

export const VECTOR_INDEX_METHODS = ['hnsw', 'ivfflat'] as const
export const INDEX_METRICS = ['cosine', 'l2', 'inner_product'] as const
type IndexMethod = (typeof VECTOR_INDEX_METHODS)[number]
type Metric = (typeof INDEX_METRICS)[number]

export type VectorIndexInput = {
  table: string
  column: string
  method: IndexMethod
  metric: Metric
  schema?: string
  index_name?: string
  lists?: number
}

const using: Record<IndexMethod, Sql> = { hnsw: sql`using hnsw`, ivfflat: sql`using ivfflat` }
const opclass: Record<Metric, string> = { cosine: 'cosine_ops', l2: 'l2_ops', inner_product: 'ip_ops' }

type Deps = { db: Db; schema: SchemaCache; indexes: ConcurrentIndexes }

export function createVectorIndexes({ db, schema, indexes }: Deps) {
  return {
    async all(): Promise<string> {
      return (await db.fly(SYSTEM, allVectorIndexes(schema.read().schemas))) ?? ''
    },

    async build(input: VectorIndexInput, act: AuditSource) {
      const { method, metric, lists } = input
      const table = await requireTable(schema, input.table, input.schema)
      const column = vectorColumnOf(table, input.column)
      const pgVector = schema.read().pgVector
      // Array columns are searched without pgvector and cannot be indexed.
      if (!column.isVector || !pgVector) throw badRequest(`column "${column.name}" is not a vector column`)
      const name = indexName(input.index_name, [table.name, column.name, method])
      const operators = `${column.baseType}_${opclass[metric]}`
      const options =
        method === 'ivfflat' && lists !== undefined ? sql` with (lists = ${integerLiteral(lists)})` : EMPTY
      const index = {
        table,
        name,
        using: sql`${using[method]} (${column.ident} ${new Ident(pgVector.schema, operators)})${options}`,
        isSame: hasOperators(column, method, operators),
      }
      const made = { index_name: name, method, metric, table: table.name, column: column.name }
      // CONCURRENTLY cannot run in a transaction with the audit entry, here and below.
      await auditedEffect(db, act.audit({ target: name, newValues: made }), () => indexes.build(index))
      await schema.refreshIfStale()
      return made
    },

    async drop(name: string, act: AuditSource): Promise<void> {
      const found = await db.fly(SYSTEM, schemaOfVectorIndex(name, schema.read().schemas))
      if (found === null) throw notFound('index not found', 'index_not_found')
      await auditedEffect(db, act.audit({ target: name }), () => indexes.drop(found, name))
    },
  }
}
