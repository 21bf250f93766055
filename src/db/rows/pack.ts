import type { Appender } from '../changes/append.ts'
import { columnsFor } from '../schema/viewer.ts'
import { Ident, join, ROW, type Sql, sql } from '../sql.ts'
import { isJsonbSafe, MADE } from './change-logging.ts'
import type { TableView } from './table-view.ts'
import { type Insertion, insertInto } from './write.ts'

const PACKED = new Ident('svc_packed')
const COUNTED = new Ident('svc_counted')

/** Whether many new rows can be one log entry: the caller sees whole rows, and their JSON is valid jsonb. */
export const canPack = ({ table, viewer }: TableView): boolean =>
  columnsFor(table, viewer.role).length === table.columns.size && isJsonbSafe(table)

/** Inserts rows, logs them as one entry, and returns their number. */
export function insertPacked(target: TableView, insertion: Insertion, log: Appender): Sql {
  const { table } = target
  const all = [...table.columns.values()]
  const returned = all.map(({ ident }) => sql`${ROW}.${ident}`)
  const cells = all.map(({ ident }) => sql`pg_catalog.json_agg(${MADE}.${ident}) as ${ident}`)
  const append = log.appendCreates(table, sql`${COUNTED}.made`, sql`pg_catalog.to_json(${PACKED}.*)`)
  return sql`with ${MADE} as (${insertInto(target, insertion)} returning ${join(returned)})
    select ${COUNTED}.made::text, ${append} from (select pg_catalog.count(*) as made from ${MADE}) as ${COUNTED},
      (select ${join(cells)} from ${MADE}) as ${PACKED}`
}
