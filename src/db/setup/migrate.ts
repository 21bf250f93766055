import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import { isRolledBack } from '../pg-errors.ts'
import { backOff } from '../pool/retries.ts'

/** The lock for changes of schema svc, so that of several starting processes one migrates. */
const LOCK_ID = 0x53_56_43_01

export type Migration = { name: string; text: string; checksum: string }

const namesIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()

export async function readMigrations(folder: string, names: readonly string[]): Promise<Migration[]> {
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(folder, name), 'utf8')
      return { name, text, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

/**
 * Brings schema svc up to date on a connection of its own. Each migration runs once, in one transaction with the
 * row that records it. Returns the names that ran.
 */
export async function migrate(
  client: pg.Client,
  folder: string,
  progress: (line: string) => void = () => {},
): Promise<string[]> {
  const known = await namesIn(folder)
  if (await isCurrent(client, known)) return []
  const migrations = await readMigrations(folder, known)
  return withMigrationLock(client, async () => {
    await client.query(`
      create schema if not exists svc;
      create table if not exists svc.migrations (
        name text primary key, checksum text not null, applied_at timestamptz not null default now())`)
    const { rows } = await client.query<{ name: string; checksum: string }>('select name, checksum from svc.migrations')
    const applied = new Map(rows.map((row) => [row.name, row.checksum]))
    const missing = migrations.filter(({ name }) => !applied.has(name))
    const newest = migrations.at(-1)?.name ?? ''
    for (const name of applied.keys()) {
      if (name > newest) throw new Error(newerDatabase(name))
    }
    const startedAt = performance.now()
    for (const { name, text, checksum } of missing) {
      await changeSchema(client, async () => {
        await client.query(text)
        await client.query('insert into svc.migrations (name, checksum) values ($1, $2)', [name, checksum])
      }).catch((error: Error) => {
        throw new Error(`migration ${name} failed: ${error.message}`, { cause: error })
      })
    }
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    if (missing.length > 0) progress(`database prepared: ${missing.length} migrations in ${seconds} s`)
    return missing.map(({ name }) => name)
  })
}

const newerDatabase = (name: string): string =>
  `the database was migrated by a newer version of the server (${name}): ` +
  'run that version, or restore the backup made before the upgrade'

/** Nearly every start finds nothing to do, and then needs no lock, because migrations are never undone. */
async function isCurrent(client: pg.Client, known: readonly string[]): Promise<boolean> {
  const table = await client.query<{ found: string | null }>(`select to_regclass('svc.migrations')::text as found`)
  if (table.rows[0]?.found === null) return false
  const applied = await client.query<{ name: string }>('select name from svc.migrations')
  const names = new Set(applied.rows.map(({ name }) => name))
  return names.size === known.length && known.every((name) => names.has(name))
}

/** Holds the migration lock for `work`. The lock belongs to the session, so losing the connection frees it. */
export async function withMigrationLock<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query('select pg_advisory_lock($1)', [LOCK_ID])
  try {
    return await work()
  } finally {
    await client.query('select pg_advisory_unlock($1)', [LOCK_ID])
  }
}

export async function inTransaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query('begin')
  try {
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

const MAX_TRIES = 5

/**
 * As inTransaction, for tables in use: what a deadlock with requests undid is done again. `onUndone` takes back what `work` did
 * outside the database.
 */
export async function changeSchema<T>(
  client: pg.Client,
  work: () => Promise<T>,
  onUndone = (): void => {},
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await inTransaction(client, work)
    } catch (error) {
      if (tries === MAX_TRIES || !isRolledBack(error)) throw error
      onUndone()
      await backOff(error, tries)
    }
  }
}
