import type pg from 'pg'
import { inTransaction } from '../../../db/setup/migrate.ts'
import { Ident } from '../../../db/sql.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import type { SourceTable } from './catalogue.ts'
import { named } from './ddl.ts'
import { SAME_TEXTS } from './source.ts'

const BATCH_ROWS = 2_000
/** A batch of wide rows is read in smaller steps. */
const BATCH_BYTES = 8 * 2 ** 20

/** `heard`: how many rows came, batch by batch. */
type Adoption = { source: string; target: pg.Client; from: pg.Client; heard: (rows: number) => void }

/**
 * Brings the rows of a table, in the order of its key, so that a run that was ended goes on behind the last batch. A table
 * without a key comes in one transaction. What has come is never looked at again: rows that were deleted here stay so.
 */
export async function bringTable(adoption: Adoption, table: SourceTable): Promise<number> {
  const { source, target } = adoption
  const at = `${table.schema}.${table.name}`
  const { rows } = await target.query<{ target: string | null }>(
    `select target from svc.adopted where source = $1 and kind = 'rows' and key = $2`,
    [source, at],
  )
  if (rows[0]?.target === 'done') return 0
  const columns = table.columns.filter(({ generated }) => generated === '')
  const key = (table.key ?? []).map((name) => columns.findIndex((column) => column.name === name))
  if (key.length === 0 || key.includes(-1)) return inTransaction(target, () => bringWhole(adoption, table, columns, at))
  let last = rows[0]?.target ? (JSON.parse(rows[0].target) as string[]) : undefined
  let size = BATCH_ROWS
  let count = 0
  for (;;) {
    const batch = await readBatch(adoption.from, table, columns, { last, size })
    if (batch.bytes > BATCH_BYTES) size = Math.max(1, Math.floor((size * BATCH_BYTES) / batch.bytes))
    const isOver = batch.values.length < batch.asked
    const end = batch.values.at(-1)
    if (end) last = key.map((place) => end[place] ?? '')
    await inTransaction(target, async () => {
      await insertRows(target, table, columns, batch.text)
      await mark(target, source, at, isOver ? 'done' : JSON.stringify(last))
    })
    count += batch.values.length
    adoption.heard(batch.values.length)
    if (isOver) return count
  }
}

const mark = (target: pg.Client, source: string, at: string, state: string): Promise<unknown> =>
  target.query(
    `insert into svc.adopted (source, kind, key, target) values ($1, 'rows', $2, $3)
     on conflict (source, kind, key) do update set target = excluded.target`,
    [source, at, state],
  )

type Columns = readonly SourceTable['columns'][number][]

const quote = (name: string): string => new Ident(name).quoted
const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** Each value as the text that PostgreSQL itself writes and reads. */
const asArray = (columns: Columns): string =>
  `pg_catalog.json_build_array(${columns.map(({ name }) => `t.${quote(name)}::text`).join(', ')})`

async function readBatch(
  from: pg.Client,
  table: SourceTable,
  columns: Columns,
  { last, size }: { last: string[] | undefined; size: number },
): Promise<{ text: string; values: (string | null)[][]; bytes: number; asked: number }> {
  const key = table.key ?? []
  const typeOf = new Map(columns.map(({ name, type }) => [name, type]))
  const order = key.map((name) => `t.${quote(name)}`).join(', ')
  const behind =
    last === undefined
      ? ''
      : `where (${order}) > (${key.map((name, index) => `${literal(last[index] ?? '')}::${typeOf.get(name) ?? 'text'}`).join(', ')})`
  const { rows } = await from.query<{ batch: string }>(
    `select coalesce(pg_catalog.json_agg(b.row order by b.place), '[]')::text as batch from (
       select ${asArray(columns)} as row, pg_catalog.row_number() over (order by ${order}) as place
       from only ${named(table.schema, table.name)} t ${behind} order by ${order} limit ${size}) b`,
  )
  const text = rows[0]?.batch ?? '[]'
  return { text, values: JSON.parse(text) as (string | null)[][], bytes: text.length, asked: size }
}

async function bringWhole(
  { source, target, from }: Adoption,
  table: SourceTable,
  columns: Columns,
  at: string,
): Promise<number> {
  let count = 0
  await from.query(
    `declare rows_of_table no scroll cursor for select ${asArray(columns)}::text as row from only ${named(table.schema, table.name)} t`,
  )
  for (;;) {
    const { rows } = await from.query<{ row: string }>(`fetch ${BATCH_ROWS} from rows_of_table`)
    if (rows.length === 0) break
    await insertRows(target, table, columns, `[${rows.map(({ row }) => row).join(',')}]`)
    count += rows.length
  }
  await from.query('close rows_of_table')
  await mark(target, source, at, 'done')
  return count
}

async function insertRows(target: pg.Client, table: SourceTable, columns: Columns, text: string): Promise<void> {
  if (columns.length === 0 && text !== '[]') {
    await insertEmpty(target, table, text)
    return
  }
  const names = columns.map(({ name }) => quote(name)).join(', ')
  const values = columns.map(({ type }, index) => `(r.value ->> ${index})::${type}`).join(', ')
  await target.query(SAME_TEXTS, [true])
  await target.query(`select pg_catalog.set_config('svc.adopting', 'on', true)`)
  await target.query(`set local role ${ADOPTED_OWNER}`)
  await target.query(
    `insert into ${named(table.schema, table.name)} (${names}) overriding system value
     select ${values} from pg_catalog.json_array_elements($1::json) with ordinality as r(value, place) order by r.place`,
    [text],
  )
  await target.query('reset role')
}

/** Of a table without columns, a row is nothing but there. */
async function insertEmpty(target: pg.Client, table: SourceTable, text: string): Promise<void> {
  await target.query(`set local role ${ADOPTED_OWNER}`)
  for (const _row of JSON.parse(text) as unknown[])
    await target.query(`insert into ${named(table.schema, table.name)} default values`)
  await target.query('reset role')
}

export async function countRows(client: pg.Client, table: SourceTable): Promise<number> {
  if (table.kind === 'p') return 0
  const { rows } = await client.query<{ count: string }>(
    `select pg_catalog.count(*) from only ${named(table.schema, table.name)}`,
  )
  return Number(rows[0]?.count)
}
