import { once } from 'node:events'
import { AppError } from '../../../core/errors.ts'
import type { Db, Tx } from '../../../db/db.ts'
import type { Place } from '../../../db/rows/place.ts'
import { columnJson } from '../../../db/schema/row-json.ts'
import type { Column, Schema } from '../../../db/schema/snapshot.ts'
import { COMMA, EMPTY, join, Slots, type Sql, sql } from '../../../db/sql.ts'
import { attachment } from '../../../http/files/disposition.ts'
import type { Call, Reply } from '../../../http/route.ts'
import { ROW, rowSelect, sourceOf } from '../list/build.ts'
import { explainList } from '../list/list.ts'
import { parseList } from '../list/parse.ts'
import { type ListMeans, type ListPlan, planList } from '../list/plan.ts'
import { csvLine } from './csv.ts'

export type Format = 'csv' | 'json' | 'ndjson'

const CONTENT_TYPES: Record<Format, string> = {
  csv: 'text/csv; charset=utf-8',
  json: 'application/json; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
}

/** Rows that are in memory at a time. */
const FETCHED = 1000
const FETCH = sql`fetch 1000 from svc_export`

export type ExportDeps = { readonly db: Db; readonly means: ListMeans; readonly maxRows: number }

/**
 * The rows of a list, from one snapshot, as fast as the client reads. What fails before the first byte is an answer like
 * any other; what fails later ends the connection, so that nobody takes a part for the whole. `ended` is told when the
 * last byte is written.
 */
export function exportRows(
  { db, means, maxRows }: ExportDeps,
  call: Call,
  place: Place,
  format: Format,
  ended: () => void,
): Promise<Reply> {
  const slots = new Slots()
  const asked = parseList({ ...call.query, expand: '', facets: '', highlight: '' }, slots, place)
  const plan = planList(asked, place, means)
  const rows = selectRows(plan, place.schema, format)
  const { response } = call.raw
  return new Promise<Reply>((resolve, reject) => {
    const work = async (tx: Tx): Promise<void> => {
      if ((await tx.fly(buildExceeds(plan, maxRows).fill(slots.values))) === 't') {
        throw new AppError('too_large', `more than ${maxRows} rows to export`)
      }
      await tx.run(sql`declare svc_export no scroll cursor for ${rows}`.fill(slots.values))
      const first = await tx.texts(FETCH)
      response.writeHead(200, {
        'Content-Type': CONTENT_TYPES[format],
        'Content-Disposition': attachment(`${place.table.name}.${format}`),
      })
      resolve({ status: 200, streaming: true })
      if (call.raw.request.method === 'HEAD') response.end()
      else await pump(tx, first, writerOf(format, plan.shape.columns), response)
    }
    db.txApart(call.who, work, { signal: call.departure, isSnapshot: true })
      .catch((error: unknown) => {
        if (response.headersSent) response.destroy()
        else reject(explainList(error, asked))
      })
      .finally(ended)
  })
}

const buildExceeds = (plan: ListPlan, maxRows: number): Sql => {
  const { found, rows } = sourceOf(plan)
  return sql`${found ?? EMPTY}select pg_catalog.count(*) > ${maxRows}::int8 from (select from ${rows} limit ${maxRows}::int8 + 1) as svc_few`
}

function selectRows(plan: ListPlan, schema: Schema, format: Format): Sql {
  const { found, rows, order } = sourceOf(plan)
  const { columns } = plan.shape
  const select =
    format === 'csv'
      ? join(
          columns.map((column) => cellText(schema, column)),
          COMMA,
        )
      : sql`(select pg_catalog.to_json(j.*)::text from (select ${rowSelect(schema, plan.shape, ROW)}) as j)`
  return sql`${found ?? EMPTY}select ${select} from ${rows}${order}`
}

const DATES = new Set(['date', 'time', 'timetz', 'timestamp', 'timestamptz'])

/** Whether a cell of the column holds JSON text. */
export const isJsonCell = (column: Column): boolean =>
  column.isArray ||
  column.isVector ||
  column.isGeometry ||
  column.isGeography ||
  column.typeKind === 'c' ||
  column.baseType === 'json' ||
  column.baseType === 'jsonb'

/** As in JSON, without the quotes around texts. */
function cellText(schema: Schema, column: Column): Sql {
  const value = columnJson(schema, column, ROW)
  if (column.baseType === 'json' || column.baseType === 'jsonb') return sql`${value}::text`
  if (isJsonCell(column)) return sql`pg_catalog.to_json(${value})::text`
  return DATES.has(column.baseType) ? sql`pg_catalog.to_json(${value}) #>> '{}'` : sql`${value}::text`
}

type Writer = {
  readonly head: string
  line(row: readonly (string | null)[], isFirst: boolean): string
  readonly end: string
}

function writerOf(format: Format, columns: readonly Column[]): Writer {
  switch (format) {
    case 'csv':
      return { head: csvLine(columns.map(({ name }) => name)), line: csvLine, end: '' }
    case 'json':
      return { head: '[', line: ([row], isFirst) => `${isFirst ? '\n' : ',\n'}${row ?? ''}`, end: '\n]\n' }
    case 'ndjson':
      // A json column keeps its line breaks, which stand between its values only.
      return { head: '', line: ([row]) => `${(row ?? '').replace(/[\r\n]+/g, ' ')}\n`, end: '' }
  }
}

async function pump(
  tx: Tx,
  first: readonly (string | null)[][],
  writer: Writer,
  response: Call['raw']['response'],
): Promise<void> {
  let text = writer.head
  let isFirst = true
  for (let rows = first; ; rows = await tx.texts(FETCH)) {
    for (const row of rows) {
      text += writer.line(row, isFirst)
      isFirst = false
    }
    const isLast = rows.length < FETCHED
    if (isLast) break
    if (!response.write(text)) await Promise.race([once(response, 'drain'), once(response, 'close')])
    if (response.destroyed) return
    text = ''
  }
  response.end(text + writer.end)
}
