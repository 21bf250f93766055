import { badRequest } from '../../../../core/errors.ts'
import { fitsAnswer } from '../../../../db/rows/answer-size.ts'
import { equals } from '../../../../db/rows/keys.ts'
import type { TableView } from '../../../../db/rows/table-view.ts'
import { withTables } from '../../../../db/search/candidates.ts'
import { COMMA, Ident, integerLiteral, join, ROW, type Sql, sql } from '../../../../db/sql.ts'
import { materializedRows, rowSelect } from '../build.ts'
import type { ListPlan } from '../plan.ts'
import { nearestRows, UNCOUNTED } from './build.ts'
import type { Vector } from './distance.ts'

/** Identifies a row in both lists: by its key, or without one by its physical location. */
type RowIdentity = {
  /** Selected from the row `svc_t`: `… as svc_k0`. */
  readonly columns: readonly Sql[]
  /** Whether the row `svc_t` is that of `svc_fused`. */
  readonly isSame: Sql
  readonly names: Sql
}

const FUSED = new Ident('svc_fused')
const keyAt = (i: number): Ident => new Ident(`svc_k${i}`)

function identityOf({ order }: ListPlan, { table, viewer }: TableView): RowIdentity {
  const hasLocations = table.kind !== 'view' && table.kind !== 'foreign_table' && table.wholeFor.has(viewer.role)
  if (order.length === 0 && !hasLocations) {
    throw badRequest('semantic search with words needs a primary key', 'no_primary_key')
  }
  const locations = [sql`tableoid`, sql`ctid`]
  const count = order.length > 0 ? order.length : locations.length
  const same =
    order.length > 0
      ? order.map(({ column }, i) => equals(column, ROW, sql`${FUSED}.${keyAt(i)}`))
      : locations.map((location, i) => sql`${ROW}.${location} = ${FUSED}.${keyAt(i)}`)
  const own = order.length > 0 ? order.map(({ column }) => sql`${column.ident}`) : locations
  return {
    columns: own.map((name, i) => sql`${ROW}.${name} as ${keyAt(i)}`),
    isSame: join(same, sql` and `),
    names: join(
      Array.from({ length: count }, (_, i) => sql`${keyAt(i)}`),
      COMMA,
    ),
  }
}

/**
 * Merges two lists of the same length, by words and by meaning, with reciprocal rank fusion (Cormack, Clarke and Büttcher,
 * 2009) and its constant of 60.
 */
export function buildHybrid(words: ListPlan, near: ListPlan, vector: Vector, length: number, target: TableView): Sql {
  const { schema } = target
  const { shape, window } = words
  const { columns, isSame, names } = identityOf(words, target)
  const found = materializedRows({ ...words, stages: [...words.stages, { computed: columns }] })
  const nearest = nearestRows(near, vector, schema, columns, length)
  const first = integerLiteral(length)
  const byScore = sql`${FUSED}.svc_score desc, ${names}`
  const item = sql`pg_catalog.concat(pg_catalog.left(pg_catalog.row_to_json(svc_row.*)::text, -1),
    ',"_hybrid_score":', ${FUSED}.svc_score, ',"_fts_rank":' || ${FUSED}.svc_rank::text,
    ',"_vector_distance":' || ${FUSED}.svc_distance::text, '}')`
  const { items, pages } = words.skipTotal
    ? { items: UNCOUNTED, pages: UNCOUNTED }
    : { items: sql`svc_total.n`, pages: sql`(svc_total.n + ${window.perPage}::int8 - 1) / ${window.perPage}::int8` }
  if (!found) throw new TypeError('a search works out a rank for each row')
  return sql`${withTables([...found, ...nearest.tables])}, svc_words as materialized (
      select ${names}, svc_rank, pg_catalog.row_number() over (order by svc_rank desc, ${names}) as svc_position
      from svc_found order by svc_position limit ${first}
    ), svc_near as materialized (
      select ${names}, svc_distance, pg_catalog.row_number() over (order by svc_distance, ${names}) as svc_position
      from (${nearest.rows}) as svc_n
    ), ${FUSED} as materialized (
      select ${names}, pg_catalog.sum(1::float8 / (60 + svc_position)::float8) as svc_score,
        pg_catalog.max(svc_rank) as svc_rank, pg_catalog.max(svc_distance) as svc_distance
      from (
        select ${names}, svc_position, svc_rank, null::float8 as svc_distance from svc_words
        union all select ${names}, svc_position, null, svc_distance from svc_near
      ) as svc_both group by ${names}
    )
    select pg_catalog.concat('{"items":[', (
        select case when ${fitsAnswer(sql`svc_page.item`)} then pg_catalog.string_agg(svc_page.item, ',') end from (
          select ${item} as item from (
            select * from ${FUSED} order by ${byScore} limit ${window.perPage}::int8 offset ${window.offset}::int8
          ) as ${FUSED} join ${shape.table.ident} as ${ROW} on ${isSame}
          cross join lateral (select ${rowSelect(schema, shape, ROW)}) as svc_row
          order by ${byScore}
        ) as svc_page
      ), '],"page":', ${window.page}::int8, ',"perPage":', ${window.perPage}::int8, ',"totalItems":', ${items},
      ',"totalPages":', ${pages}, '}')
    from (select pg_catalog.count(*) as n from ${FUSED}) as svc_total`
}
