import type pg from 'pg'
import { inTransaction } from '../../../db/setup/migrate.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import type { Note } from '../plan.ts'
import type { Collection } from './collections.ts'
import { quoted } from './rule-sql.ts'
import { type Source, type SourceRow, sqliteName } from './source.ts'
import type { TargetColumn } from './statements.ts'

const BATCH_ROWS = 500
const BATCH_BYTES = 4 * 2 ** 20

type Table = { collection: Collection; columns: readonly TargetColumn[] }

/** Adds the rows that no run has added before; each batch is a transaction. Resolves to their number. */
export async function bringRows(
  client: pg.Client,
  source: Source,
  table: Table,
  notes: Note[],
  heard: (rows: number) => void,
): Promise<number> {
  const { collection, columns } = table
  const has = new Set(source.columns(collection.name))
  const wanted = columns.filter(({ name }) => has.has(name)).map(({ name }) => sqliteName(name))
  const changes = { dates: 0, json: 0 }
  let [batch, bytes, added]: [Record<string, unknown>[], number, number] = [[], 0, 0]
  const flush = async (): Promise<void> => {
    if (batch.length === 0) return
    added += await inTransaction(client, () => addRows(client, table, batch))
    heard(batch.length)
    ;[batch, bytes] = [[], 0]
  }
  for (const row of source.each(`select ${wanted.join(', ')} from ${sqliteName(collection.name)} order by rowid`)) {
    const record = recordOf(row, columns, changes)
    batch.push(record)
    bytes += JSON.stringify(record).length
    if (batch.length >= BATCH_ROWS || bytes >= BATCH_BYTES) await flush()
  }
  await flush()
  if (changes.dates > 0)
    notes.push({
      level: 'warning',
      what: `${changes.dates} dates of ${collection.name}`,
      why: 'cannot be read and are empty here',
    })
  if (changes.json > 0)
    notes.push({
      level: 'warning',
      what: `${changes.json} JSON values of ${collection.name}`,
      why: 'cannot be read and are texts or empty lists here',
    })
  return added
}

async function addRows(
  client: pg.Client,
  { collection, columns }: Table,
  batch: readonly Record<string, unknown>[],
): Promise<number> {
  const keys = batch.map(({ id }) => `${collection.id}/${String(id)}`)
  const { rows } = await client.query<{ key: string }>(
    `insert into svc.adopted (source, kind, key) select 'pocketbase', 'row', k from unnest($1::text[]) k on conflict do nothing returning key`,
    [keys],
  )
  const isNew = new Set(rows.map(({ key }) => key))
  let fresh = batch.filter((_row, index) => isNew.has(keys[index] ?? ''))
  if (fresh.length === 0) return 0
  if (collection.type === 'auth') {
    const { rows: accounts } = await client.query<{ key: string; target: string }>(
      `select a.key, a.target from svc.adopted a join svc.users u on u.id = a.target::uuid where a.source = 'pocketbase' and a.kind = 'user' and a.key = any ($1)`,
      [[...isNew]],
    )
    const byKey = new Map(accounts.map(({ key, target }) => [key, target]))
    // An account that was deleted here since takes its profile along.
    fresh = fresh.flatMap((row) => {
      const account = byKey.get(`${collection.id}/${String(row['id'])}`)
      return account === undefined ? [] : [{ ...row, account_id: account }]
    })
  }
  const table = `public.${quoted(collection.name)}`
  const names = columns.map(({ name }) => quoted(name)).join(', ')
  await client.query(`select set_config('svc.adopting', 'on', true)`)
  await client.query(`set local role ${ADOPTED_OWNER}`)
  await client.query(
    `insert into ${table} (${names}) select ${names} from json_populate_recordset(null::${table}, $1::json)`,
    [JSON.stringify(fresh)],
  )
  await client.query('reset role')
  return fresh.length
}

/** PostgreSQL keeps no zero characters. */
const clean = (text: string): string => text.replaceAll('\0', '')

function recordOf(
  row: SourceRow,
  columns: readonly TargetColumn[],
  changes: { dates: number; json: number },
): Record<string, unknown> {
  const record: Record<string, unknown> = Object.create(null)
  for (const { name, field, type } of columns) {
    const given = row[name] ?? null
    if (!field) record[name] = given === null ? null : clean(String(given))
    else if (field.isMultiple) record[name] = listOf(given, changes)
    else if (field.type === 'number') record[name] = numberOf(given, type)
    else if (field.type === 'bool') record[name] = Number(given) === 1 || given === 'true'
    else if (field.type === 'date' || field.type === 'autodate') record[name] = dateOf(given, changes)
    else if (field.type === 'relation') record[name] = singleOf(given) || null
    else if (type === 'jsonb')
      record[name] = jsonOf(given, changes) ?? (field.type === 'geoPoint' ? { lon: 0, lat: 0 } : null)
    else record[name] = singleOf(given)
  }
  return record
}

function numberOf(given: unknown, type: string): number | string {
  if (typeof given === 'bigint') return String(given)
  const value = Number(given)
  if (!Number.isFinite(value)) return 0
  return type === 'bigint' ? String(BigInt(Math.trunc(value))) : value
}

const singleOf = (given: unknown): string => (given === null ? '' : clean(String(given)))

function listOf(given: unknown, changes: { json: number }): string[] {
  if (given === null || given === '') return []
  const text = String(given)
  if (!text.startsWith('[')) return [clean(text)]
  try {
    return (JSON.parse(text) as unknown[]).map((item) => clean(String(item)))
  } catch {
    changes.json++
    return []
  }
}

function jsonOf(given: unknown, changes: { json: number }): unknown {
  if (given === null || given === '') return null
  try {
    return JSON.parse(String(given), (_key, value: unknown) => (typeof value === 'string' ? clean(value) : value))
  } catch {
    changes.json++
    return clean(String(given))
  }
}

const DATE = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/

function dateOf(given: unknown, changes: { dates: number }): string | null {
  const text = given === null ? '' : String(given)
  if (text === '') return null
  if (DATE.test(text) && !Number.isNaN(Date.parse(text.replace(' ', 'T'))))
    return /[Z+]|-\d\d:?\d\d$/.test(text) ? text : `${text}Z`
  changes.dates++
  return null
}
