import type { Column, Schema } from '../../../../db/schema/snapshot.ts'
import { EMPTY, Ident, integerLiteral, ROW, type Slot, type Sql, sql } from '../../../../db/sql.ts'
import type { Metric } from './parse.ts'

/** The distance of each row, as parts of a statement whose row is `svc_t`. */
export type Distance = {
  /** An additional FROM that computes the distance. */
  readonly from: Sql
  readonly value: Sql
  /** Excludes rows for which computing the distance would fail. */
  readonly conditions: readonly Sql[]
}

const operators: Record<Metric, Sql> = { cosine: sql`<=>`, l2: sql`<->`, inner_product: sql`<#>` }

export type Vector = {
  readonly column: Column
  readonly metric: Metric
  readonly dimensions: number
  /** The text of the query vector. */
  readonly query: Slot
}

export const distanceOf = (vector: Vector, schema: Schema): Distance =>
  vector.column.isVector ? typedDistance(vector, schema.pgVector?.schema ?? 'public') : arrayDistance(vector)

/** In the form that pgvector's indexes support. */
function typedDistance({ column, metric, dimensions, query }: Vector, pgVector: string): Distance {
  const value = sql`${ROW}.${column.ident}`
  const queryVector = sql`${query}::${new Ident(pgVector, column.baseType)}`
  const isOfSize = sql`${new Ident(pgVector, 'vector_dims')}(${value}) = ${integerLiteral(dimensions)}`
  return {
    from: EMPTY,
    value: sql`(${value} operator(${new Ident(pgVector)}.${operators[metric]}) ${queryVector})`,
    conditions: column.vectorDim === undefined ? [isOfSize] : [],
  }
}

const DOT = sql`pg_catalog.sum(svc_n.x * svc_n.y)`
const distances: Record<Metric, Sql> = {
  l2: sql`pg_catalog.sqrt(pg_catalog.sum((svc_n.x - svc_n.y) * (svc_n.x - svc_n.y)))`,
  inner_product: sql`- ${DOT}`,
  cosine: sql`1::float8 - ${DOT} / nullif(pg_catalog.sqrt(pg_catalog.sum(svc_n.x * svc_n.x))
    * pg_catalog.sqrt(pg_catalog.sum(svc_n.y * svc_n.y)), 0::float8)`,
}

/**
 * Computed element by element. PostgreSQL fails on products that are too large or too small for a double, and one bad row
 * must not fail the whole search: such elements count as missing or zero (see vector-column.ts), and a row with a missing
 * element has no distance.
 */
function arrayDistance({ column, metric, dimensions, query }: Vector): Distance {
  const value = sql`${ROW}.${column.ident}`
  const size = integerLiteral(dimensions)
  const clean = sql`select case when pg_catalog.abs(u.x) < '1e-50'::float8 then 0::float8
    when pg_catalog.abs(u.x) < '1e50'::float8 then u.x end as x, u.y
    from rows from (pg_catalog.unnest(${value}::float8[]), pg_catalog.unnest((select ${query}::float8[]))) as u(x, y)`
  return {
    from: sql` cross join lateral (select case when pg_catalog.count(svc_n.x) = ${size} then ${distances[metric]} end as value
      from (${clean}) as svc_n) as svc_distance`,
    value: sql`svc_distance.value`,
    conditions: [sql`pg_catalog.array_ndims(${value}) = 1`, sql`pg_catalog.cardinality(${value}) = ${size}`],
  }
}
