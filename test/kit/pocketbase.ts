import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sqlite from 'node-sqlite3-wasm'

type Row = Record<string, string | number | null>
type Made = {
  id: string
  name: string
  type?: 'base' | 'auth' | 'view'
  /** Of a view. */
  query?: string
  fields: Record<string, unknown>[]
  rules?: Record<string, string | null>
  options?: Record<string, unknown>
  indexes?: string[]
  rows?: Row[]
}
const TYPES: Record<string, string> = {
  number: 'NUMERIC DEFAULT 0 NOT NULL',
  bool: 'BOOLEAN DEFAULT FALSE NOT NULL',
  json: 'JSON DEFAULT NULL',
}

/** A data folder by the published layout: of 0.23 and newer (`fields`), or of 0.22 (`schema`). */
export function dataFolder(
  collections: readonly Made[],
  more: {
    layout?: '0.22' | '0.23'
    files?: Record<string, string>
    external?: Row[]
    superusers?: string[]
    walRows?: string
  } = {},
): string {
  const folder = mkdtempSync(join(tmpdir(), 'pb-data-'))
  const file = join(folder, 'making.db')
  const db = new sqlite.Database(file)
  const isOld = more.layout === '0.22'
  db.exec('pragma locking_mode = exclusive; pragma journal_mode = wal')
  db.exec(
    `create table _collections (id text primary key, system boolean, type text, name text unique, ${isOld ? 'schema' : 'fields'} json, indexes json,
     listRule text, viewRule text, createRule text, updateRule text, deleteRule text, options json, created text, updated text)`,
  )
  db.exec(
    isOld
      ? 'create table _externalAuths (id text primary key, collectionId text, recordId text, provider text, providerId text)'
      : 'create table _externalAuths (id text primary key, collectionRef text, recordRef text, provider text, providerId text)',
  )
  db.exec(`create table ${isOld ? '_admins' : '_superusers'} (id text primary key, email text)`)
  for (const [index, email] of (more.superusers ?? []).entries())
    db.run(`insert into ${isOld ? '_admins' : '_superusers'} values (?, ?)`, [String(index), email])
  for (const one of collections) addCollection(db, one, isOld)
  for (const row of more.external ?? []) insert(db, '_externalAuths', row)
  db.exec('pragma wal_checkpoint(truncate)')
  if (more.walRows !== undefined) db.exec(more.walRows)
  // Copied while it is open, as a PocketBase that was killed leaves it.
  for (const end of ['', '-wal']) if (existsSync(file + end)) copyFileSync(file + end, join(folder, `data.db${end}`))
  db.close()
  for (const end of ['', '-wal', '-shm', '-journal', '.lock']) rmSync(file + end, { recursive: true, force: true })
  for (const [name, text] of Object.entries(more.files ?? {})) {
    mkdirSync(join(folder, 'storage', name, '..'), { recursive: true })
    writeFileSync(join(folder, 'storage', name), text)
  }
  return folder
}

function addCollection(db: InstanceType<typeof sqlite.Database>, one: Made, isOld: boolean): void {
  const { rules = {}, type = 'base' } = one
  const auth = [
    'email',
    'emailVisibility',
    'verified',
    'tokenKey',
    isOld ? 'passwordHash' : 'password',
    ...(isOld ? ['username'] : []),
  ]
  const authFields = [
    { name: 'email', type: 'email' },
    { name: 'emailVisibility', type: 'bool' },
    { name: 'verified', type: 'bool' },
    { name: 'password', type: 'password', hidden: true },
    { name: 'tokenKey', type: 'text', hidden: true },
  ]
  const fields = isOld
    ? one.fields
    : [{ name: 'id', type: 'text', primaryKey: true }, ...(type === 'auth' ? authFields : []), ...one.fields]
  const columns = [
    ...one.fields.map(
      (field) => `"${String(field['name'])}" ${TYPES[String(field['type'])] ?? "TEXT DEFAULT '' NOT NULL"}`,
    ),
    ...(type === 'auth'
      ? auth.map(
          (name) =>
            `"${name}" ${name === 'verified' || name === 'emailVisibility' ? 'BOOLEAN DEFAULT FALSE' : "TEXT DEFAULT ''"}`,
        )
      : []),
    ...(isOld ? ['created TEXT', 'updated TEXT'] : []),
  ]
  const isView = type === 'view'
  if (isView) db.exec(`create view "${one.name}" as ${one.query}`)
  else
    db.exec(
      `create table "${one.name}" ("id" TEXT PRIMARY KEY NOT NULL${columns.map((column) => `, ${column}`).join('')})`,
    )
  insert(db, '_collections', {
    id: one.id,
    system: 0,
    type,
    name: one.name,
    [isOld ? 'schema' : 'fields']: JSON.stringify(fields),
    indexes: JSON.stringify(one.indexes ?? []),
    ...Object.fromEntries(
      ['list', 'view', 'create', 'update', 'delete'].map((kind) => [`${kind}Rule`, rules[kind] ?? null]),
    ),
    options: JSON.stringify(
      isView
        ? { [isOld ? 'query' : 'viewQuery']: one.query }
        : type === 'auth'
          ? { authRule: '', passwordAuth: { enabled: true }, ...one.options }
          : {},
    ),
  })
  for (const row of one.rows ?? []) insert(db, one.name, row)
}

function insert(db: InstanceType<typeof sqlite.Database>, table: string, row: Row): void {
  const names = Object.keys(row)
  db.run(
    `insert into "${table}" (${names.map((name) => `"${name}"`).join(', ')}) values (${names.map(() => '?').join(', ')})`,
    Object.values(row),
  )
}
