import type pg from 'pg'
import { openConnection } from '../../../db/protocol/driver.ts'
import { EACH_SETTING } from '../../../db/protocol/settings.ts'
import { UsageError } from '../../command/command.ts'
import type { Note } from '../plan.ts'

/** A database that is read in one snapshot and never written. */
export type SourceDatabase = { client: pg.Client; shown: string; notes: Note[]; close(): Promise<void> }

/** Names in expressions carry their schema, and nothing is too slow. The settings of every connection again: a pooler may have taken them away. */
const ALSO = ["'search_path',''", "'statement_timeout','0'", "'idle_in_transaction_session_timeout','0'"]
export const SAME_TEXTS = `select ${[...EACH_SETTING, ...ALSO].map((one) => `pg_catalog.set_config(${one},$1::boolean)`).join(',')}`

/** Also without a host, as of a Unix socket. */
const ADDRESS = /^(postgres(?:ql)?:\/\/)(?:([^/?]*)@)?([^?@]*)(\?.*)?$/

export async function openSourceDatabase(
  url: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<SourceDatabase> {
  const found = ADDRESS.exec(url)
  if (!found) throw new UsageError('the source is a URL such as postgres://user@host/database')
  const [, scheme = '', who = '', place = '', query = ''] = found
  const [user = '', ...rest] = who.split(':')
  const notes: Note[] = []
  const isGiven = rest.length > 0 || /[?&]password=/.test(query)
  if (isGiven)
    notes.push({
      level: 'warning',
      what: 'the password on the command line',
      why: 'others on this machine can read it there: use SVC_ADOPT_SOURCE_PASSWORD, PGPASSWORD or PGPASSFILE',
    })
  const shown = `${scheme}${user === '' ? '' : `${user}@`}${place}`
  const secret = env['SVC_ADOPT_SOURCE_PASSWORD']
  const isFromEnvironment = !isGiven && secret !== undefined && user !== ''
  const full = isFromEnvironment ? `${scheme}${user}:${encodeURIComponent(secret)}@${place}${query}` : url
  const client = await openConnection({ url: full, applicationName: 'svc adopt' }).catch((error: Error) => {
    throw new Error(`cannot connect to ${shown}: ${error.message}`, { cause: error })
  })
  client.on('error', () => {})
  const close = async (): Promise<void> => {
    await client.end().catch(() => {})
  }
  try {
    await readInOneSnapshot(client)
  } catch (error) {
    await close()
    throw error
  }
  return { client, shown, notes, close }
}

/** The database that the server runs on, on a connection that only reads. */
export async function openOwnDatabase(url: string): Promise<SourceDatabase> {
  const client = await openConnection({ url, applicationName: 'svc adopt' })
  client.on('error', () => {})
  await readInOneSnapshot(client)
  const close = async (): Promise<void> => {
    await client.end().catch(() => {})
  }
  return { client, shown: 'in place', notes: [], close }
}

/** Rows that row security would hide are an error instead of missing. */
export async function readInOneSnapshot(client: pg.Client): Promise<void> {
  await client.query('begin transaction isolation level repeatable read, read only')
  await client.query(SAME_TEXTS, [true])
  await client.query('set local row_security = off')
}

/** Those of the tables that are there and may be read: a name in a schema that may not be used is an error otherwise. */
export async function readableTables(client: pg.Client, tables: readonly string[]): Promise<Set<string>> {
  const found = await readRows<{ name: string }>(
    client,
    `select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname || '.' || c.relname = any ($1) and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')`,
    [tables],
  )
  return new Set(found.map(({ name }) => name))
}

/** Rows as JSON, whatever types their columns have. */
export async function readRows<T>(client: pg.Client, query: string, values: readonly unknown[] = []): Promise<T[]> {
  const { rows } = await client.query<{ found: string }>(
    `select coalesce(pg_catalog.json_agg(r), '[]')::text as found from (${query}) r`,
    [...values],
  )
  return JSON.parse(rows[0]?.found ?? '[]') as T[]
}
