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
import { fillsAtOnce, isIndexed, scanSettings } from './scan.ts'
import { fitted, fittedEmbedding, vectorColumn } from './vector-column.ts'

/** A text as a vector of the provider's, with as many dimensions as the column declares if it declares any. */
export type Embed = (text: string, dimensions: number | undefined) => Promise<readonly number[]>

type Query = Readonly<Record<string, string>>
type Statements = {
  asked: ListQuery
  statements: [Sql, ...Sql[]]
  /** When those answered NULL: the page was not full at first look. */
  again?: () => [Sql, ...Sql[]]
  /** Without an index every row is looked at. */
  mayBeSlow: boolean
}

/** The way of a list that is near to something: as listStatement goes it, with the vector as one more value. */
export async function vectorStatements(
  sqlCache: SqlCache,
  query: Query,
  near: VectorQuery,
  target: TableView,
  means: ListDeps & { embed: Embed | undefined },
): Promise<Statements> {
  const column = vectorColumn(near.column, target)
  const { dimensions, literal } = await vectorAsked(near, column, means.embed)
  const slots = new Slots()
  // Nearness is the order; without words beside it there is one page of it.
  const asked = parseList({ ...query, sort: '', ...(!near.hybrid && { page: '' }) }, slots, target)
  const vector: Vector = {
    column,
    metric: near.metric,
    dimensions,
    query: slots.put(literal),
  }
  const { offset, perPage } = parsePage({ page: query['page'], perPage: query['perPage'] }, PAGES)
  const length = near.hybrid ? Math.min((offset + perPage) * 3, MAX_LENGTH) : 0
  const statementOf = (isFirstLook: boolean): Sql => {
    const kind = isFirstLook ? 'first look' : 'near'
    const shape = `${kind} ${near.metric} ${dimensions} ${length} ${JSON.stringify([column.name, asked])}`
    const statement = sqlCache.get(target, shape, () => {
      const plan = planList(asked, target, means)
      if (!near.hybrid) return buildNearest(plan, vector, target.schema, isFirstLook)
      const all = planList({ ...asked, search: undefined }, target, means)
      return buildHybrid(plan, all, vector, length, target.schema)
    })
    return statement.fill(slots.values)
  }
  const settings = scanSettings(column, target.schema)
  const whole = (): [Sql, ...Sql[]] => (settings ? [settings, statementOf(false)] : [statementOf(false)])
  const { table } = target
  const looksOnce =
    !near.hybrid && !sparse.has(table) && fillsAtOnce(target, column, perPage) && !isNarrow(asked, target)
  const again = (): [Sql, ...Sql[]] => {
    sparse.add(table)
    return whole()
  }
  return {
    asked,
    ...(looksOnce ? { statements: [statementOf(true)], again } : { statements: whole() }),
    mayBeSlow: near.hybrid || !isIndexed(table, column),
  }
}

/** Tables of a snapshot whose pages were not full at first look: too few rows, or too many that are deleted. */
const sparse = new WeakSet<Table>()

/** Of each of the two lists of a hybrid search: what is far down in one may be far up in the other. */
const MAX_LENGTH = 500

/** The vector as PostgreSQL reads it. */
async function vectorAsked(
  { near, hybrid, metric }: VectorQuery,
  column: Column,
  embed: Embed | undefined,
): Promise<{ dimensions: number; literal: string }> {
  if ('text' in near) {
    if (!embed) throw notConfigured(hybrid)
    const numbers = fittedEmbedding(column, await embed(near.text, column.vectorDim), metric)
    return { dimensions: numbers.length, literal: vectorText(column, numbers) }
  }
  const numbers = fitted(column, near.numbers, metric)
  // pgvector reads what JSON writes; to write hundreds of numbers anew would cost as much as all else here together.
  return { dimensions: numbers.length, literal: column.isVector ? near.written : vectorText(column, numbers) }
}

function notConfigured(hybrid: boolean): AppError {
  const message = 'semantic search is not configured: no embedding provider available'
  return hybrid ? new AppError('not_implemented', message) : badRequest(message, 'provider_not_configured')
}
