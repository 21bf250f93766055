import { AppError, badRequest } from '../../../../core/errors.ts'
import type { TableView } from '../../../../db/rows/table-view.ts'
import type { Column } from '../../../../db/schema/snapshot.ts'
import { columnFor, columnsFor } from '../../../../db/schema/viewer.ts'
import { holdsVectors, isNumberArray, notAVector } from '../../../../db/search/vectors.ts'
import type { Metric } from './parse.ts'

/** pgvector's limit, applied to arrays too. */
const MAX_DIMENSIONS = 16_000
/** Outside of these limits a square or a product of sums does not fit a double. See distance.ts. */
const LARGEST = 1e50
const SMALLEST = 1e-50
const LARGEST_OF: Record<string, number> = { vector: 3.4028235677973366e38, halfvec: 65_520 }

/** The column to search: the named one, or the only one of a vector type. */
export function vectorColumn(name: string | undefined, { table, viewer }: TableView): Column {
  if (name !== undefined) {
    const column = columnFor(table, name, viewer.role)
    if (!column || !holdsVectors(column)) throw badRequest(notAVector(name), 'invalid_vector')
    return column
  }
  const readable = columnsFor(table, viewer.role).filter(holdsVectors)
  const typed = readable.filter((column) => column.isVector)
  const [only] = typed
  if (only && typed.length === 1) return only
  if (readable.length === 0) throw badRequest('no vector column on table', 'invalid_vector')
  const choices = (typed.length > 0 ? typed : readable).map((column) => column.name)
  throw badRequest(`vector_column is required: one of ${choices.join(', ')}`, 'invalid_vector')
}

/** Checks the client's numbers against the column, with a clearer error than PostgreSQL's. */
export function fitToColumn(column: Column, numbers: readonly number[], metric: Metric): readonly number[] {
  const { vectorDim } = column
  if (vectorDim !== undefined && vectorDim !== numbers.length) {
    throw badRequest(`vector dimension mismatch: expected ${vectorDim}, got ${numbers.length}`, 'invalid_vector')
  }
  const largest = LARGEST_OF[column.baseType] ?? LARGEST
  if (numbers.length > MAX_DIMENSIONS || numbers.some((n) => Math.abs(n) >= largest)) {
    throw badRequest('invalid vector value', 'invalid_vector')
  }
  const rounded = isNumberArray(column) ? numbers.map(flushToZero) : numbers
  if (metric === 'cosine' && hasNoDirection(column, rounded))
    throw badRequest('zero vector has no cosine distance', 'invalid_vector')
  return rounded
}

const flushToZero = (n: number): number => (Math.abs(n) < SMALLEST ? 0 : n)

/** pgvector sums squares in single precision, in which very small numbers become zero. */
function hasNoDirection(column: Column, numbers: readonly number[]): boolean {
  if (!column.isVector) return numbers.every((n) => n === 0)
  return numbers.every((n) => Math.fround(Math.fround(n) ** 2) === 0)
}

/** Checks a provider's numbers. A mismatch is a configuration error of the operator. */
export function fitEmbedding(column: Column, numbers: readonly number[], metric: Metric): readonly number[] {
  if (column.vectorDim !== undefined && column.vectorDim !== numbers.length) {
    throw new AppError('internal', 'embedding dimension mismatch')
  }
  return fitToColumn(column, numbers, metric)
}
