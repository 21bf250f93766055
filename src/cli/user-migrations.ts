import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type pg from 'pg'
import { packageRoot } from '../core/package-root.ts'
import { isNoTransaction, isRolledBack } from '../db/pg-errors.ts'
import { changeSchema, type Migration, migrate, readMigrations, withMigrationLock } from '../db/setup/migrate.ts'

/** The server's own migrations, which `svc migrate` must not apply as the user's. */
const SYSTEM_FOLDER = `${packageRoot}migrations`
const FILE_NAME = /^\d{14}_[A-Za-z0-9_-]+\.sql$/

export type MigrationState = {
  name: string
  state: 'applied' | 'pending' | 'changed' | 'missing'
  appliedAt: string | null
}

async function readFolder(folder: string): Promise<Migration[]> {
  if (resolve(folder) === resolve(SYSTEM_FOLDER)) {
    throw new Error(`database.migrations_dir is the server's own folder: ${folder}`)
  }
  const all = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const names = all.filter((name) => name.endsWith('.sql')).sort()
  const odd = names.find((name) => !FILE_NAME.test(name))
  if (odd !== undefined) throw new Error(`not a migration name: ${odd} (expected <yyyymmddhhmmss>_<name>.sql)`)
  return readMigrations(folder, names)
}

type Applied = { name: string; checksum: string; applied_at: string }

async function appliedOn(client: pg.Client): Promise<Map<string, Applied>> {
  const { rows: tables } = await client.query<{ found: string | null }>(
    `select to_regclass('svc.user_migrations')::text as found`,
  )
  if (!tables[0]?.found) return new Map()
  const { rows } = await client.query<Applied>(
    `select name, checksum, to_char(applied_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as applied_at
     from svc.user_migrations order by name`,
  )
  return new Map(rows.map((row) => [row.name, row]))
}

export async function migrationStates(client: pg.Client, folder: string): Promise<MigrationState[]> {
  const files = await readFolder(folder)
  const applied = await appliedOn(client)
  const known = files.map(({ name, checksum }): MigrationState => {
    const row = applied.get(name)
    if (!row) return { name, state: 'pending', appliedAt: null }
    return { name, state: row.checksum === checksum ? 'applied' : 'changed', appliedAt: row.applied_at }
  })
  const lost = [...applied.values()]
    .filter(({ name }) => !files.some((file) => file.name === name))
    .map(({ name, applied_at }): MigrationState => ({ name, state: 'missing', appliedAt: applied_at }))
  return [...known, ...lost].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Applies pending migrations in name order, one transaction each. A lock makes concurrent callers wait. */
export async function applyAll(client: pg.Client, folder: string, applied: (name: string) => void): Promise<number> {
  const files = await readFolder(folder)
  await migrate(client, SYSTEM_FOLDER)
  return withMigrationLock(client, async () => {
    const before = await appliedOn(client)
    const changed = files.find(({ name, checksum }) => before.has(name) && before.get(name)?.checksum !== checksum)
    if (changed) throw new Error(`migration ${changed.name} was changed after it was applied`)
    const missing = files.filter(({ name }) => !before.has(name))
    for (const file of missing) {
      await applyOne(client, file)
      applied(file.name)
    }
    return missing.length
  })
}

const ENDS_TRANSACTION = 'it must not contain COMMIT or ROLLBACK'

/** Also right after a failure, when a transaction would take no query. */
const isOutsideTransaction = (client: pg.Client): Promise<boolean> =>
  client.query('savepoint here').then(() => false, isNoTransaction)

async function applyOne(client: pg.Client, { name, text, checksum }: Migration): Promise<void> {
  try {
    await changeSchema(client, async () => {
      await client.query(`select set_config('svc.migration', $1, true)`, [name])
      await client.query(text).catch(async (error: unknown) => {
        // What the file has committed is not done a second time.
        throw isRolledBack(error) && (await isOutsideTransaction(client)) ? new Error(ENDS_TRANSACTION) : error
      })
      // The setting is local to the transaction, so a missing value means that the file ended it.
      const { rows } = await client.query<{ now: string }>(`select current_setting('svc.migration', true) as now`)
      if (rows[0]?.now !== name) throw new Error(ENDS_TRANSACTION)
      await client.query('insert into svc.user_migrations (name, checksum) values ($1, $2)', [name, checksum])
    })
  } catch (error) {
    throw new Error(`migration ${name} failed: ${(error as Error).message}`, { cause: error })
  }
}

export async function createMigration(folder: string, name: string, now: Date): Promise<string> {
  const stamp = now.toISOString().replaceAll(/\D/g, '').slice(0, 14)
  const path = join(folder, `${stamp}_${name}.sql`)
  await mkdir(folder, { recursive: true })
  await writeFile(path, `-- ${name.replaceAll('_', ' ')}\n`, { flag: 'wx' })
  return path
}
