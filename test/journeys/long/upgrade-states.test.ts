import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { hash } from '@node-rs/argon2'
import { packageRoot } from '../../../src/core/package-root.ts'
import { openConnection } from '../../../src/db/protocol/driver.ts'
import { readMigrations } from '../../../src/db/setup/migrate.ts'
import { createEmptyDatabase } from '../../kit/cluster.ts'
import { startServer } from '../../kit/kit.ts'

/**
 * One database that goes through all migrations, one by one, with a user, a file and rows from the first state on that has a
 * place for them. After each it is cloned, and the server of today starts on the clone.
 */
const MIGRATIONS = join(packageRoot, 'migrations')
const names = readdirSync(MIGRATIONS).sort()
const secret = 'a secret of the states, thirty-two characters'
const bytes = 'a file of an earlier state'
const [user, blob] = ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222']

const files = mkdtempSync(join(tmpdir(), 'svc-states-'))
after(() => rmSync(files, { recursive: true, force: true }))
mkdirSync(join(files, 'blobs', blob.slice(0, 2)), { recursive: true })
writeFileSync(join(files, 'blobs', blob.slice(0, 2), blob), bytes)

const growing = await createEmptyDatabase()
after(() => growing.drop())
const nameOf = (url: string): string => /\/([^/?]+)(\?|$)/.exec(url)?.[1] ?? ''

async function grow(
  work: (run: (text: string, values?: unknown[]) => Promise<unknown>) => Promise<void>,
): Promise<void> {
  const client = await openConnection({ url: growing.url })
  try {
    await work((text, values) => client.query(text, values))
  } finally {
    await client.end()
  }
}

/** What goes in after a migration that made a place for it. */
const SEEDS = new Map<string, (run: (text: string, values?: unknown[]) => Promise<unknown>) => Promise<unknown>>([
  [
    '0010_auth.sql',
    async (run) => {
      const password = await hash('long enough password', { memoryCost: 1024, timeCost: 1, parallelism: 1 })
      await run('insert into svc.users (id, email, password_hash) values ($1, $2, $3)', [
        user,
        'ann@states.test',
        password,
      ])
    },
  ],
  [
    '0030_storage.sql',
    async (run) => {
      const sha256 = createHash('sha256').update(bytes).digest('hex')
      await run('insert into svc.blobs (id, size, sha256) values ($1, $2, $3)', [blob, bytes.length, sha256])
      await run(
        `insert into svc.storage_objects (bucket, name, encoded_name, content_type, blob_id, user_id)
         values ('papers', 'letter.txt', 'letter.txt', 'text/plain; charset=utf-8', $1, $2)`,
        [blob, user],
      )
    },
  ],
])

await grow(async (run) => {
  await run(`create schema svc;
    create table svc.migrations (name text primary key, checksum text not null, applied_at timestamptz not null default now());
    create schema if not exists public;
    create table public.notes (id int primary key, title text);
    insert into public.notes select n, 'note ' || n from generate_series(1, 20) n`)
})

for (const [number, name] of names.entries()) {
  test(`a database of ${name} starts and keeps its rows, users and files`, async () => {
    const [migration] = await readMigrations(MIGRATIONS, [name])
    assert.ok(migration)
    await grow(async (run) => {
      await run(`begin; ${migration.text}`)
      await run('insert into svc.migrations (name, checksum) values ($1, $2)', [name, migration.checksum])
      await run('commit')
      await SEEDS.get(name)?.(run)
    })
    const clone = await createEmptyDatabase(nameOf(growing.url))
    const config = { 'storage.local_path': files, 'auth.jwt_secret': secret }
    const api = await startServer({ on: { databaseUrl: clone.url }, config })
    const has = (migrationName: string) => number >= names.indexOf(migrationName)
    const notes = await api.call('GET /api/collections/notes?perPage=50&sort=id', { as: 'admin' })
    assert.deepEqual([notes.body.items.length, notes.body.items[19]], [20, { id: 20, title: 'note 20' }])
    const login = await api.call('POST /api/auth/login', {
      json: { email: 'ann@states.test', password: 'long enough password' },
    })
    assert.equal(login.status, has('0010_auth.sql') ? 200 : 401, login.text)
    const file = await api.call('GET /api/storage/papers/letter.txt', { as: 'admin' })
    assert.deepEqual(
      [file.status, file.text === bytes],
      has('0030_storage.sql') ? [200, true] : [404, false],
      file.text,
    )
    const made = await api.call('POST /api/collections/notes', { as: 'admin', json: { id: 21, title: 'later' } })
    assert.equal(made.status, 201, made.text)
    await api.stop()
    await clone.drop()
  })
}
