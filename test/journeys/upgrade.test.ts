import assert from 'node:assert/strict'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { packageRoot } from '../../src/core/package-root.ts'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { atEnd } from '../kit/at-end.ts'
import { createEmptyDatabase } from '../kit/cluster.ts'
import { eventually, startServer } from '../kit/kit.ts'

/**
 * Dumps of databases that earlier states of the migrations made, by the name of their last one: a user with a password, a table
 * with rows written through the API, a file. See test/fixtures/upgrade/README.md.
 */
const FIXTURES = join(packageRoot, 'test/fixtures/upgrade')
const states = readdirSync(FIXTURES).flatMap((name) => /^(.+)\.sql\.gz$/.exec(name)?.[1] ?? [])
const storage = mkdtempSync(join(tmpdir(), 'svc-upgrade-'))
after(() => rmSync(storage, { recursive: true, force: true }))

async function restored(state: string): Promise<string> {
  const { url, drop } = await createEmptyDatabase()
  atEnd(drop)
  const client = await openConnection({ url })
  try {
    const roles = ['svc_anon', 'svc_authenticated', 'svc_authenticator', 'svc_undo'].map(
      (role) => `do $$ begin create role ${role}; exception when duplicate_object then null; end $$;`,
    )
    await client.query(roles.join('\n'))
    await client.query('drop schema if exists public')
    await client.query(
      `create schema if not exists public;\n${gunzipSync(readFileSync(join(FIXTURES, `${state}.sql.gz`))).toString()}`,
    )
  } finally {
    await client.end()
  }
  return url
}

for (const state of states) {
  test(`a database of ${state} starts and keeps its rows, users and files`, async () => {
    const url = await restored(state)
    const files = join(storage, state)
    mkdirSync(files, { recursive: true })
    cpSync(join(FIXTURES, state), files, { recursive: true })
    const api = await startServer({
      on: { databaseUrl: url },
      config: {
        'storage.local_path': files,
        'auth.jwt_secret': 'a secret of the fixture, thirty-two characters',
      },
    })
    const login = await api.call('POST /api/auth/login', {
      json: { email: 'ann@fixture.test', password: 'long enough password' },
    })
    assert.equal(login.status, 200, login.text)
    const as = login.body.token
    const list = await api.call('GET /api/collections/notes?perPage=50&sort=id', { as })
    assert.equal(list.body.items.length, 20)
    assert.deepEqual(list.body.items[19], { id: 20, title: 'note 20' })
    const file = await api.call('GET /api/storage/papers/letter.txt', { as })
    assert.deepEqual([file.status, file.text], [200, 'a file of the fixture'])
    assert.equal((await api.call('POST /api/collections/notes', { as, json: { id: 21, title: 'later' } })).status, 201)
    await eventually(async () => assert.equal((await api.call('GET /health')).status, 200))
  })
}

test('an older version on a newer database refuses with a sentence, and changes nothing', async () => {
  const first = await startServer()
  await first.stop()
  const client = await openConnection({ url: first.databaseUrl })
  await client.query(`insert into svc.migrations (name, checksum) values ('9999_later.sql', '')`)
  await assert.rejects(
    startServer({ on: first }),
    /^Error: the database was migrated by a newer version of the server \(9999_later\.sql\): run that version, or restore the backup made before the upgrade$/,
  )
  const { rows } = await client.query('select count(*) as n from svc.migrations')
  assert.equal(Number(rows[0].n), readdirSync(join(packageRoot, 'migrations')).length + 1)
  await client.end()
})
