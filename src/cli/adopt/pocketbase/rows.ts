import type pg from 'pg'
import { inTransaction } from '../../../db/setup/migrate.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import { type BroughtTable, type PocketRecord, recordsOf } from './records.ts'
import { quoted } from './rule-sql.ts'
import type { Source } from './source.ts'

const BATCH_ROWS = 500
const BATCH_BYTES = 4 * 2 ** 20

/** Adds the rows that no run has added before; each batch is a transaction. Resolves to their number. */
export async function bringRows(
  client: pg.Client,
  source: Source,
  table: BroughtTable,
  heard: (rows: number) => void,
): Promise<number> {
  let [batch, bytes, added]: [PocketRecord[], number, number] = [[], 0, 0]
  const flush = async (): Promise<void> => {
    if (batch.length === 0) return
    added += await inTransaction(client, () => addRows(client, table, batch))
    heard(batch.length)
    ;[batch, bytes] = [[], 0]
  }
  for (const record of recordsOf(source, table)) {
    batch.push(record)
    bytes += record.json.length
    if (batch.length >= BATCH_ROWS || bytes >= BATCH_BYTES) await flush()
  }
  await flush()
  return added
}

async function addRows(
  client: pg.Client,
  { collection, columns }: BroughtTable,
  batch: readonly PocketRecord[],
): Promise<number> {
  const keys = batch.map(({ id }) => `${collection.id}/${id}`)
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
      const account = byKey.get(`${collection.id}/${row.id}`)
      return account === undefined ? [] : [{ ...row, json: `${row.json.slice(0, -1)},"account_id":"${account}"}` }]
    })
  }
  const table = `public.${quoted(collection.name)}`
  const names = columns.map(({ name }) => quoted(name)).join(', ')
  await client.query(`select set_config('svc.adopting', 'on', true)`)
  await client.query(`set local role ${ADOPTED_OWNER}`)
  await client.query(
    `insert into ${table} (${names}) select ${names} from json_populate_recordset(null::${table}, $1::json)`,
    [`[${fresh.map(({ json }) => json).join()}]`],
  )
  await client.query('reset role')
  return fresh.length
}
