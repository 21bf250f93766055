import type { ServerResponse } from 'node:http'
import { AppError } from '../../../core/errors.ts'
import type { Db, Tx } from '../../../db/db.ts'
import { roundedUp } from '../../../db/rows/order.ts'
import type { TableView } from '../../../db/rows/table-view.ts'
import { columnJson } from '../../../db/schema/row-json.ts'
import type { Column, Schema } from '../../../db/schema/snapshot.ts'
import { COMMA, integerLiteral, join, ROW, Slots, type Sql, sql } from '../../../db/sql.ts'
import { attachment } from '../../../http/files/disposition.ts'
import type { Call, Reply } from '../../../http/route.ts'
import { rowSelect, sourceOf } from '../list/build.ts'
import { explainList } from '../list/list.ts'
import { parseList } from '../list/parse.ts'
import { type ListPlan, planList } from '../list/plan.ts'
import type { ListDeps } from '../list/stages/stage.ts'
import { type Cell, type FileFormat, type RowWriter, writerOf } from './formats.ts'

const CONTENT_TYPES: Record<FileFormat, string> = {
  csv: 'text/csv; charset=utf-8',
  json: 'application/json; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8',
}

/** Rows per fetch: few at first, then as many as make about PIECE_BYTES. */
const FIRST_FETCH = 10
const MAX_FETCH = 5000
const PIECE_BYTES = 512 * 1024

export type ExportDeps = { readonly db: Db; readonly listDeps: ListDeps; readonly maxRows: number }

/**
 * Streams the rows of a list from one snapshot, as fast as the client reads. A failure before the first byte is an error
 * response; a later one closes the connection, so that the client does not take a part for the whole. `onEnd` is called
 * when the last byte is written.
 */
export function exportRows(
  { db, listDeps, maxRows }: ExportDeps,
  call: Call,
  target: TableView,
  format: FileFormat,
  onEnd: () => void,
): Promise<Reply> {
  const slots = new Slots()
  const listQuery = parseList({ ...call.query, expand: '', facets: '', highlight: '', cut: '' }, slots, target)
  const plan = planList(listQuery, target, listDeps)
  const { response } = call.raw
  return new Promise<Reply>((resolve, reject) => {
    const work = async (tx: Tx): Promise<void> => {
      const exceeds = await tx.fly(buildPrecheck(plan, maxRows).fill(slots.values))
      if (exceeds === 'true') throw new AppError('response_too_large', `more than ${maxRows} rows to export`)
      const rows = selectRows(plan, target.schema, format)
      await tx.run(sql`declare svc_export no scroll cursor for ${rows}`.fill(slots.values))
      const writer = writerOf(format, plan.shape.columns.map(cellOf))
      await pump(tx, writer, response, () => {
        if (response.headersSent) return
        response.writeHead(200, {
          'Content-Type': CONTENT_TYPES[format],
          'Content-Disposition': attachment(`${target.table.name}.${format}`),
        })
        resolve({ status: 200, streaming: true })
      })
    }
    db.tx(call.who, work, { apart: true, signal: call.cancelSignal, isSnapshot: true })
      .catch((error: unknown) => {
        if (response.headersSent) response.destroy()
        else reject(explainList(error, listQuery))
      })
      .finally(onEnd)
  })
}

/** Whether there are more than `maxRows` rows. */
const buildPrecheck = (plan: ListPlan, maxRows: number): Sql => {
  const { found, rows } = sourceOf(plan)
  return sql`${found}select (pg_catalog.count(*) > ${maxRows}::int8)::text from (select from ${rows} limit ${maxRows}::int8 + 1) as svc_few`
}

function selectRows(plan: ListPlan, schema: Schema, format: FileFormat): Sql {
  const { found, rows, order } = sourceOf(plan)
  const { columns } = plan.shape
  const select =
    format === 'csv'
      ? join(
          columns.map((column) => cellText(schema, column)),
          COMMA,
        )
      : sql`(select pg_catalog.to_json(j.*)::text from (select ${rowSelect(schema, plan.shape, ROW)}) as j)`
  return sql`${found}select ${select} from ${rows}${order}`
}

/** JSON has these in ISO 8601, with a `T` and the minutes of the zone; PostgreSQL's own text has neither. */
const MOMENTS = new Set(['timestamp', 'timestamptz'])
const DATES = new Set(['date', 'time', 'timetz', ...MOMENTS])

/** Whether a cell of the column holds JSON text. */
export const isJsonCell = (column: Column): boolean =>
  column.isArray ||
  column.isVector ||
  column.isGeometry ||
  column.isGeography ||
  column.typeKind === 'c' ||
  column.baseType === 'json' ||
  column.baseType === 'jsonb'

/** Types whose values never need quotes in CSV. */
const PLAIN = new Set(['int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'oid', 'uuid'])

/** Dates arrive in PostgreSQL's ISO style, which is cheaper for it than JSON. */
function cellOf(column: Column): Cell {
  const { name, baseType } = column
  if (isJsonCell(column)) return { name, kind: 'text' }
  if (DATES.has(baseType)) return { name, kind: MOMENTS.has(baseType) ? 'moment' : 'plain' }
  return { name, kind: PLAIN.has(baseType) ? 'plain' : 'text' }
}

/** The value as in JSON, without quotes around texts. No-op casts are left out because they cost time. */
function cellText(schema: Schema, column: Column): Sql {
  const value = columnJson(schema, column, ROW)
  if (column.baseType === 'json' || column.baseType === 'jsonb') return value
  if (isJsonCell(column)) return sql`pg_catalog.to_json(${value})`
  const { kind } = cellOf(column)
  return kind !== 'text' || column.baseType === 'text' ? value : sql`${value}::text`
}

type Fetch = { readonly rows: number; readonly fetched: Promise<number> }

/**
 * Pipelines fetching, formatting and sending: while one piece is sent, the next is made, and no third is begun. The next
 * FETCH is sent before the last row of the current one is read. The number of rows per FETCH follows from their size,
 * because the time of a statement is limited.
 */
async function pump(tx: Tx, writer: RowWriter, response: ServerResponse, start: () => void): Promise<void> {
  let sending = Promise.resolve()
  const push = (): Promise<void> => {
    start()
    const before = sending
    sending = before.then(() => send(response, writer.take()))
    return before
  }
  const pushIfFull = (): Promise<void> | undefined => (writer.size > PIECE_BYTES ? push() : undefined)
  const fetch = (rows: number): Fetch => {
    const fetched = tx.each(sql`fetch ${integerLiteral(rows)} from svc_export`, (row) => writer.row(row), pushIfFull)
    fetched.catch(() => {}) // isLast() awaits it and reports the error
    return { rows, fetched }
  }
  let total = 0
  let next = FIRST_FETCH
  const isLast = async ({ rows, fetched }: Fetch): Promise<boolean> => {
    const isShort = (await fetched) < rows
    next = roundedUp(Math.min(MAX_FETCH, Math.ceil((rows * PIECE_BYTES) / Math.max(1, writer.total - total))))
    total = writer.total
    return isShort || response.destroyed
  }
  let ahead = fetch(next)
  let isOver = (await isLast(ahead)) || response.req.method === 'HEAD'
  start()
  if (!isOver) ahead = fetch(next)
  while (!isOver) {
    const now = ahead
    ahead = fetch(next)
    isOver = await isLast(now)
  }
  await ahead.fetched
  writer.finish()
  await sending
  response.end(writer.take())
}

/** Resolves when the bytes are written or the connection is closed. */
const send = (response: ServerResponse, bytes: Buffer): Promise<void> =>
  new Promise((resolve) => {
    const onDone = (): void => {
      response.off('close', onDone)
      resolve()
    }
    response.once('close', onDone)
    response.write(bytes, onDone)
  })
