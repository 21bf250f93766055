import { AppError, badRequest } from '../../core/errors.ts'
import { type Identity, SYSTEM } from '../../core/identity.ts'
import { parseMoment } from '../../core/moment.ts'
import { isKnownPoint } from '../changes/sql.ts'
import type { Db } from '../db.ts'
import { isTooMuch } from '../pg-errors.ts'
import { keyText } from '../rows/change-logging.ts'
import type { TableView } from '../rows/table-view.ts'
import { policyRule } from '../schema/policy-rule.ts'
import { heldColumns, rowAlias, rowImage } from '../schema/row-image.ts'
import type { Table } from '../schema/snapshot.ts'
import { columnsFor, keyFor } from '../schema/viewer.ts'
import { EMPTY, join, ROW, type Sql, sql } from '../sql.ts'
import { type HistoryConfig, logKeyOf, requireHistory, securityOf } from './history.ts'

/** Images that a list may read, of all its tables. */
const MOST_BYTES = 16 * 1024 * 1024
const POSITION = /^(\d{1,20})-(\d{1,18})$/

/** `related`: the tables that are read with the rows, by expansions and by paths of a filter. */
type PastParts = { readonly key?: readonly string[]; readonly related: readonly Table[] }

type Moment = { readonly at: string | null; readonly id: string | null }

/** Tables as they were at a time or a position of the log: their rows of now, put back by the log. */
export class AsOf {
  readonly #deps: { db: Db; key: string; config: HistoryConfig }

  constructor(deps: { db: Db; key: string; config: HistoryConfig }) {
    this.#deps = deps
  }

  /** The table as it was, for this caller, and those that it is read with; with a key, only that row of it. */
  async view(who: Identity, target: TableView, text: string, { key, related }: PastParts): Promise<TableView> {
    const others = new Set(related)
    const most = Math.floor(MOST_BYTES / (1 + others.size))
    const table = await this.#tableThen(who, target, text, most, key)
    if (others.size === 0) return { ...target, table }
    const tables = new Map(target.schema.tables)
    for (const [name, known] of tables) {
      if (others.has(known)) tables.set(name, await this.#tableThen(who, { ...target, table: known }, text, most))
    }
    return { ...target, schema: { ...target.schema, tables }, table }
  }

  async #tableThen(
    who: Identity,
    target: TableView,
    text: string,
    most: number,
    key?: readonly string[],
  ): Promise<Table> {
    const { db, config } = this.#deps
    await requireHistory(db, config, who, target)
    if (keyFor(target.table, target.viewer.role).length === 0) {
      throw badRequest('as_of needs a primary key', 'no_primary_key')
    }
    const moment = await this.#moment(target, text)
    const security = target.viewer.role === 'none' ? undefined : await securityOf(db, target)
    const isVisible = security?.isClosed
      ? sql`false`
      : security?.rls
        ? sql`coalesce((${policyRule(security.policies)}), false)`
        : sql`true`
    const asked = security?.rls
      ? sql`svc_past.svc_image ?& ${heldColumns(target.table, security.asked)}::text[] and `
      : EMPTY
    const { table, viewer } = target
    const columns = columnsFor(table, viewer.role).map(({ ident }) => ident)
    const listed = (row: Sql): Sql => join(columns.map((ident) => sql`${row}.${ident}`))
    const rows = sql`(with svc_past as materialized (
        select p.key as svc_key, p.image as svc_image from svc.put_back(${this.#deps.key}::text, ${table.oid}::pg_catalog.oid, ${moment.at}::timestamptz, ${moment.id}::pg_catalog.int8,
          ${key ? logKeyOf(table, key) : sql`null::text`}, ${most}::pg_catalog.int8) as p
      )
      select ${listed(sql`${ROW}`)} from ${table.ident} as ${ROW} where ${keyText(table.primaryKey)} not in (select svc_key from svc_past)
      union all
      select ${listed(sql`${rowAlias(table)}`)} from svc_past, lateral ${rowImage(target, sql`svc_past.svc_image`)}
      where svc_past.svc_image is not null and ${asked}${isVisible})`
    return { ...table, rowsThen: rows }
  }

  /** Refuses what the log does not reach. */
  async #moment({ table }: TableView, text: string): Promise<Moment> {
    const { db, config } = this.#deps
    const reaches = await db.fly(
      SYSTEM,
      sql`select extract(epoch from svc.history_reaches(${table.oid}::oid, make_interval(secs => ${config.retention}::float8)))::text`,
    )
    const tooShort = (): AppError => badRequest(`history does not reach back to ${text}`, 'history_too_short')
    const isReached = (at: number): boolean => reaches !== null && at / 1000 >= Number(reaches)
    const [, xid, id] = POSITION.exec(text) ?? []
    if (xid === undefined || id === undefined) {
      const { at, isDate } = parseMoment(text, 'as_of')
      if (!isReached(at.getTime())) throw tooShort()
      // PostgreSQL keeps the microseconds.
      return { at: isDate ? at.toJSON() : text.replace(/ (?=\d\d:\d\d$)/, '+'), id: null }
    }
    const [isKnown, at] = await db.fly(SYSTEM, [
      isKnownPoint({ xid, id }),
      sql`select extract(epoch from max(c.at))::text from svc.change_log c where c.id <= ${id}::bigint and c.id > ${id}::bigint - 1024`,
    ])
    if (isKnown !== 'true' || at === null || !isReached(Number(at) * 1000)) throw tooShort()
    return { at: null, id }
  }
}

export const explainAsOf = (error: unknown): unknown =>
  isTooMuch(error) ? new AppError('too_large', 'too much has changed since', { cause: error }) : error
