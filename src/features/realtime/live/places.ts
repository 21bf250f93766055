import { AppError } from '../../../core/errors.ts'
import type { Change } from '../../../db/changes/log.ts'
import type { Db } from '../../../db/db.ts'
import { hasComparableType, isComparable } from '../../../db/rows/live-query.ts'
import type { Table } from '../../../db/schema/snapshot.ts'
import { catalogueExpression, join, sql } from '../../../db/sql.ts'
import { isTransient } from '../visibility/table-changes.ts'
import type { LiveGroup } from './group.ts'
import { type Condition, conditionsByPolicy } from './policy-equality.ts'

/** A column and a value. */
export type RowPlace = { readonly column: string; readonly value: string }

/** Beyond these, and where they are not found at once, the row itself is asked about. */
const MAX_VALUES = 200
const MAX_MS = 100
/** A longer text is no value of a comparable type, and is found not to be one when it is cut. */
const MAX_LENGTH = 64
const NO_COLUMN = { baseType: '' }
/** After so many failures one after the other a table's queries are not asked any more. */
const MAX_FAILURES = 3

const isAsked = ({ query }: Condition): boolean => query !== undefined

/** What the queries in policies answer callers. */
export class PolicyValues {
  readonly #failures = new WeakMap<Table, number>()

  /** Of each query, now, as the list's caller; undefined when there is none, or the answers are too many or not to be had. */
  async read(db: Db, { plan, session, who }: LiveGroup): Promise<string[][] | undefined> {
    const { table } = plan?.own ?? {}
    const asked = table ? (conditionsByPolicy(table, session)?.filter(isAsked) ?? []) : []
    if (!table || asked.length === 0 || (this.#failures.get(table) ?? 0) >= MAX_FAILURES) return undefined
    // Values of other types, such as long texts, are neither read nor kept.
    const isUseful = ({ column }: Condition): boolean => hasComparableType(table.columns.get(column) ?? NO_COLUMN)
    if (!asked.every(isUseful)) return undefined
    const lists = asked.map(
      ({
        query,
      }) => sql`(select coalesce(pg_catalog.json_agg(pg_catalog.left(svc_v.v::text, ${MAX_LENGTH}::int)), '[]') from (
        select svc_q.v from (${catalogueExpression(query ?? '')}) as svc_q(v) where svc_q.v is not null limit ${MAX_VALUES + 1}::int
      ) as svc_v)`,
    )
    try {
      const statement = sql`select pg_catalog.json_build_array(${join(lists)})::text`
      const text = await db.fly(who, statement, { kind: 'slow', plain: true, timeoutMs: MAX_MS })
      this.#failures.delete(table)
      const values = JSON.parse(text ?? '[]') as string[][]
      return values.every(({ length }) => length <= MAX_VALUES) ? values.map((one) => [...new Set(one)]) : undefined
    } catch (error) {
      if (!(error instanceof AppError) || isTransient(error)) throw error
      // Such as a query that reads the row after all.
      this.#failures.set(table, (this.#failures.get(table) ?? 0) + 1)
      return undefined
    }
  }
}

/** Of which each row that it may hold has one. Undefined: not known. */
export function placesByPolicy({ plan, session, values }: LiveGroup): RowPlace[] | undefined {
  if (!plan?.own) return undefined
  const { table } = plan.own
  const conditions = conditionsByPolicy(table, session)
  if (!conditions || (!values && conditions.some(isAsked))) return undefined
  const asked = conditions.filter(isAsked)
  const places = conditions.flatMap((condition) => {
    const { column, query } = condition
    const those = query === undefined ? [session.userId] : (values?.[asked.indexOf(condition)] ?? [])
    return those.map((value) => ({ column, value }))
  })
  const isKnown = conditions.every(({ column }) => table.columns.has(column))
  const isTold = ({ column, value }: RowPlace): boolean => {
    const found = table.columns.get(column)
    return found !== undefined && isComparable(found, value)
  }
  return isKnown && places.every(isTold) ? places : undefined
}

/** A row of the log, as far as it can be compared without PostgreSQL. */
export class LoggedRow {
  readonly #row: Record<string, unknown> | undefined

  constructor({ record }: Change) {
    this.#row = parsed(record === null ? '' : record.toString())
  }

  /** Undefined: not known. */
  value(column: string): string | undefined {
    const row = this.#row
    if (row === undefined || !Object.hasOwn(row, column)) return undefined
    const value = row[column]
    return typeof value !== 'number' || Number.isSafeInteger(value) ? String(value) : undefined
  }

  mayBeAt({ column, value }: RowPlace): boolean {
    const own = this.value(column)
    return own === undefined || own === value
  }
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
