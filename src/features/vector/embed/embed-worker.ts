import { reasonOf } from '../../../core/errors.ts'
import { ON_DATA, SYSTEM } from '../../../core/identity.ts'
import type { ChangeLog } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import { isBadRow } from '../../../db/pg-errors.ts'
import { type Queue, RetryIn } from '../../../db/queue/queue.ts'
import { requireTable } from '../../../db/schema/require-table.ts'
import type { SchemaCache } from '../../../db/schema/snapshot.ts'
import { vectorText } from '../../../db/search/vectors.ts'
import type { Sql } from '../../../db/sql.ts'
import { type EmbeddingProvider, NO_PROVIDER, RefusedText } from '../embedding/provider.ts'
import { textColumnOf, vectorColumnOf } from './columns.ts'
import * as q from './sql.ts'

const LEASE_SECONDS = 15
const CONCURRENCY = 4
const LONGEST_WAIT_SECONDS = 300
const FIRST_POSITION = '0 (0,0)'

type Deps = { db: Db; schema: SchemaCache; log: ChangeLog; queue: Queue; provider: EmbeddingProvider | undefined }
/** The keys of changed rows; without them, the whole table is filled. */
type Payload = { embedding: string; keys?: string[] }
type Row = { key: string; text: string; vector: string | null }

const NOTHING: q.EmbeddingProgress = { embedded: 0, refused: 0 }

/**
 * The log reader turns changes into queue items, and the worker turns those into vectors. Nothing is only in memory: while
 * the provider is unavailable, the items wait.
 */
export function startEmbedWorker({ db, schema, log, queue, provider }: Deps): void {
  /** Throws if a table or column is missing, so that the item is retried: it may be created again. */
  async function targetOf({
    schema: space,
    table: name,
    columns,
    vector_column,
  }: q.Embedding): Promise<q.EmbeddingTarget> {
    const table = await requireTable(schema, name, space)
    const sources = columns.map((column) => textColumnOf(table, column))
    return { table, sources, vector: vectorColumnOf(table, vector_column) }
  }

  const embed = async (
    target: q.EmbeddingTarget,
    texts: readonly string[],
    give: EmbeddingProvider,
  ): Promise<readonly string[]> => {
    const vectors = await give.embed(texts, target.vector.vectorDim)
    const { vectorDim } = target.vector
    if (vectorDim !== undefined && vectors.some(({ length }) => length !== vectorDim)) {
      throw new Error('embedding dimension mismatch')
    }
    return vectors.map((vector) => vectorText(target.vector, vector))
  }

  /** If the provider refuses a batch, each text is tried alone, so that one bad text does not block the others. */
  async function embedEach(
    target: q.EmbeddingTarget,
    sources: readonly q.EmbeddingSource[],
    give: EmbeddingProvider,
  ): Promise<Row[]> {
    try {
      const vectors = await embed(
        target,
        sources.map(({ text }) => text),
        give,
      )
      return sources.map(({ key, text }, i) => ({ key, text, vector: vectors[i] ?? null }))
    } catch (error) {
      if (!(error instanceof RefusedText)) throw error
      if (sources.length <= 1) return []
      const rows: Row[] = []
      for (const source of sources) rows.push(...(await embedEach(target, [source], give)))
      return rows
    }
  }

  async function fill(
    id: string,
    target: q.EmbeddingTarget,
    found: readonly q.EmbeddingSource[],
    give: EmbeddingProvider,
  ): Promise<q.EmbeddingProgress> {
    const sources = found.filter(({ text }) => text !== '')
    const blank = found.filter(({ text, isNull }) => text === '' && !isNull)
    const rows = sources.length > 0 ? await embedEach(target, sources, give) : []
    const written = [...rows, ...blank.map(({ key, text }) => ({ key, text, vector: null }))]
    const { embedded, refused } = written.length > 0 ? await write(target, written) : NOTHING
    if (written.length > 0) log.wake()
    const progress = { embedded, refused: refused + sources.length - rows.length }
    await db.run(SYSTEM, q.recordProgress(id, progress))
    return progress
  }

  /** Rows that do not take their vector, such as numbers too large for the column, are found by writing each alone. */
  async function write(target: q.EmbeddingTarget, rows: readonly Row[]): Promise<q.EmbeddingProgress> {
    try {
      const statements: [Sql, Sql] = [q.ownWrite, q.writeVectors(target, rows)]
      const made = await db.rows<{ isFilled: boolean }>(ON_DATA, statements, { kind: 'slow' })
      return { embedded: made.filter(({ isFilled }) => isFilled).length, refused: 0 }
    } catch (error) {
      if (!isBadRow(error)) throw error
      if (rows.length === 1) return { embedded: 0, refused: 1 }
      const sum = { embedded: 0, refused: 0 }
      for (const row of rows) {
        const { embedded, refused } = await write(target, [row])
        sum.embedded += embedded
        sum.refused += refused
      }
      return sum
    }
  }

  /** Repeats until a pass fills nothing, because rows may move during a pass. Rows that a trigger keeps unfilled do not count. */
  async function fillAll(
    id: string,
    target: q.EmbeddingTarget,
    give: EmbeddingProvider,
    signal: AbortSignal,
  ): Promise<void> {
    for (let embedded = 1; embedded > 0; ) {
      embedded = 0
      for (let position = FIRST_POSITION; ; ) {
        if (signal.aborted) throw new Error('interrupted')
        const found = await db.rows<q.EmbeddingSource>(ON_DATA, q.rowsAfter(target, position), { kind: 'slow' })
        const last = found.at(-1)
        if (!last) break
        embedded += (await fill(id, target, found, give)).embedded
        position = last.position
      }
    }
    await db.run(SYSTEM, q.recordFilled(id))
  }

  async function work({ embedding: id, keys }: Payload, signal: AbortSignal): Promise<void> {
    const [embedding] = await db.rows<q.Embedding>(SYSTEM, q.oneEmbedding(id))
    if (!embedding) return
    try {
      if (!provider) throw new RetryIn(LONGEST_WAIT_SECONDS, NO_PROVIDER)
      const target = await targetOf(embedding)
      if (!keys) return await fillAll(id, target, provider, signal)
      await fill(id, target, await db.rows<q.EmbeddingSource>(ON_DATA, q.rowsByKey(target, keys)), provider)
    } catch (error) {
      if (!signal.aborted) await db.run(SYSTEM, q.recordFailure(id, reasonOf(error)))
      throw error
    }
  }

  queue.work(
    q.EMBEDDING_KIND,
    {
      concurrency: CONCURRENCY,
      leaseSeconds: LEASE_SECONDS,
      retryDelays: (_, attempt) => Math.min(2 ** Math.min(attempt, 10), LONGEST_WAIT_SECONDS),
    },
    ({ payload }, signal) => work(payload as Payload, signal),
  )
  log.followDurably('embeddings', {
    wanted: q.anyEmbedding,
    effect: queue.pushEach(q.EMBEDDING_KIND, q.rowsToEmbed),
    onBatch: () => queue.wake(q.EMBEDDING_KIND),
  })
}
