import { AppError, badRequest } from '../../../../core/errors.ts'
import { parsePage } from '../../../../core/page.ts'
import type { SqlCache } from '../../../../db/rows/sql-cache.ts'
import type { TableView } from '../../../../db/rows/table-view.ts'
import type { Column, Table } from '../../../../db/schema/snapshot.ts'
import { vectorText } from '../../../../db/search/vectors.ts'
import { Slots, type Sql } from '../../../../db/sql.ts'
import { type ListQuery, PAGES, parseList } from '../parse.ts'
import { isNarrow, planList } from '../plan.ts'
import type { ListDeps } from '../stages/stage.ts'
import { buildNearest } from './build.ts'
import type { Vector } from './distance.ts'
import { buildHybrid } from './hybrid.ts'
import type { VectorQuery } from './parse.ts'
import { fillsInFirstScan, isIndexed, scanSettings } from './scan.ts'
import { fitEmbedding, fitToColumn, vectorColumn } from './vector-column.ts'

/** Embeds a text, with the dimensions that the column declares, if any. */
export type Embed = (text: string, dimensions: number | undefined) => Promise<readonly number[]>

type Query = Readonly<Record<string, string>>
type VectorStatements = {
  listQuery: ListQuery
  statements: [Sql, ...Sql[]]
  /** To run if `statements` returned NULL: the first scan did not fill the page. */
  again?: () => [Sql, ...Sql[]]
  /** Without an index every row is read. */
  mayBeSlow: boolean
}

/** Like listStatement, with the query vector as an additional value. */
export async function vectorStatements(
  sqlCache: SqlCache,
  query: Query,
  near: VectorQuery,
  target: TableView,
  deps: ListDeps & { embed: Embed | undefined },
): Promise<VectorStatements> {
  const column = vectorColumn(near.column, target)
  const { dimensions, literal } = await queryVector(near, column, deps.embed)
  const slots = new Slots()
  // Rows are sorted by distance. Without full-text search there is only one page.
  const listQuery = parseList({ ...query, sort: '', ...(!near.hybrid && { page: '' }) }, slots, target)
  const vector: Vector = {
    column,
    metric: near.metric,
    dimensions,
    query: slots.put(literal),
  }
  const { offset, perPage } = parsePage({ page: query['page'], perPage: query['perPage'] }, PAGES)
  const length = near.hybrid ? Math.min((offset + perPage) * 3, MAX_LENGTH) : 0
  const statementOf = (isFirstScan: boolean): Sql => {
    const kind = isFirstScan ? 'first scan' : 'near'
    const shape = `${kind} ${near.metric} ${dimensions} ${length} ${JSON.stringify([column.name, listQuery])}`
    const statement = sqlCache.get(target, shape, () => {
      const plan = planList(listQuery, target, deps)
      if (!near.hybrid) return buildNearest(plan, vector, target.schema, isFirstScan)
      const all = planList({ ...listQuery, search: undefined }, target, deps)
      return buildHybrid(plan, all, vector, length, target)
    })
    return statement.fill(slots.values)
  }
  const settings = scanSettings(column, target.schema)
  const whole = (): [Sql, ...Sql[]] => (settings ? [settings, statementOf(false)] : [statementOf(false)])
  const { table } = target
  const triesFirstScan =
    !near.hybrid && !sparse.has(table) && fillsInFirstScan(target, column, perPage) && !isNarrow(listQuery, target)
  const again = (): [Sql, ...Sql[]] => {
    sparse.add(table)
    return whole()
  }
  return {
    listQuery,
    ...(triesFirstScan ? { statements: [statementOf(true)], again } : { statements: whole() }),
    mayBeSlow: near.hybrid || !isIndexed(table, column),
  }
}

/** Tables whose pages the first scan did not fill: they have too few rows, or too many deleted ones. */
const sparse = new WeakSet<Table>()

/** Length limit of the two lists of a hybrid search. They are longer than a page, because their ranks differ. */
const MAX_LENGTH = 500

/** The query vector as a literal. */
async function queryVector(
  { near, hybrid, metric }: VectorQuery,
  column: Column,
  embed: Embed | undefined,
): Promise<{ dimensions: number; literal: string }> {
  if ('text' in near) {
    if (!embed) throw notConfigured(hybrid)
    const numbers = fitEmbedding(column, await embed(near.text, column.vectorDim), metric)
    return { dimensions: numbers.length, literal: vectorText(column, numbers) }
  }
  const numbers = fitToColumn(column, near.numbers, metric)
  // pgvector reads JSON arrays. Formatting hundreds of numbers again would double the cost of this function.
  return { dimensions: numbers.length, literal: column.isVector ? near.written : vectorText(column, numbers) }
}

function notConfigured(hybrid: boolean): AppError {
  const message = 'semantic search is not configured: no embedding provider available'
  return hybrid ? new AppError('not_implemented', message) : badRequest(message, 'provider_not_configured')
}
