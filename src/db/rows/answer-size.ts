import { budgets } from '../../core/budgets.ts'
import { integerLiteral, type Sql, sql } from '../sql.ts'

/** The smallest share of an answer is 64 kB. */
const MAX_PARTS = 1024

/**
 * Answers are divided into parts: a list that may have a quarter of one has `parts` 4. All that is inside of a row of a list
 * may together have half of what the list may, so that the memory of all levels is at most twice that of the answer.
 */
export const partsInside = (parts: number): number => parts * 2

/** The parts of each of `count` relations of a row. */
export const partsOfEach = (parts: number, count: number): number => Math.min(parts * Math.max(count, 1), MAX_PARTS)

/**
 * A condition of the same aggregation that builds a list: raises when the values, JSON or text, have more bytes than their
 * part of `budgets.responseBytes`.
 */
export function fitsAnswer(value: Sql, parts = 1): Sql {
  const most = integerLiteral(Math.floor(budgets.responseBytes / parts) + 1)
  const bytes = sql`least(pg_catalog.pg_column_size(${value}), ${most})`
  return sql`svc.answer_bytes(${parts === 1 ? bytes : sql`${bytes} operator(pg_catalog.*) ${integerLiteral(parts)}`}) is not null`
}

/** The rows of a select as a JSON array that fits its part of an answer; NULL if there are none. */
export const boundedArray = (rows: Sql, parts = 1): Sql =>
  sql`(select case when ${fitsAnswer(sql`svc_each.j`, parts)} then pg_catalog.json_agg(svc_each.j) end
    from (select pg_catalog.row_to_json(svc_rows.*) as j from (${rows}) as svc_rows offset 0) as svc_each)`
