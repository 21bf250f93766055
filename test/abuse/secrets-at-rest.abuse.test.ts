import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config/config.ts'
import { startReceiver } from '../fakes/receiver.ts'
import { client, eventually, startServer } from '../kit/kit.ts'

const dataDir = mkdtempSync(join(tmpdir(), 'svc-at-rest-'))
const file = join(dataDir, 'root-secret')
after(() => rmSync(dataDir, { recursive: true, force: true }))

/** A server with the embedded database; the connection string is that of its superuser. */
async function start() {
  const { config } = loadConfig({ overrides: { data_dir: dataDir, 'server.port': 0, 'log.level': 'error' } })
  const app = await startApp(config, { observe: () => {} })
  const url = `postgres://postgres@localhost/postgres?host=${encodeURIComponent(join(dataDir, 'run'))}`
  return { app, ...client(app.url, url) }
}

const inDatabase = (api: Awaited<ReturnType<typeof start>>) =>
  api.sql(`select value #>> '{}' as secret from svc.settings where key = 'auth.root_secret'`)

test('the root secret lies beside the embedded database, not in it', async () => {
  const first = await start()
  const { token } = await first.signUp('ana@x.test')
  const secret = readFileSync(file, 'utf8').trim()
  assert.match(secret, /^[0-9a-f]{64}$/)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.ok(!existsSync(join(dataDir, 'postgres', 'root-secret')))
  assert.deepEqual(await inDatabase(first), [])
  const everything = await first.sql(`select string_agg(value::text, ' ') as all from svc.settings`)
  assert.ok(!everything[0].all.includes(secret))

  // A server of before kept it in the database: it moves once, and what was signed with it stays good.
  await first.sql(`insert into svc.settings (key, value) values ('auth.root_secret', to_jsonb($1::text))`, [secret])
  await first.app.close()
  rmSync(file)
  const second = await start()
  assert.equal(readFileSync(file, 'utf8').trim(), secret)
  assert.deepEqual(await inDatabase(second), [])
  assert.equal((await second.call('GET /api/auth/me', { as: token })).status, 200)
  await second.app.close()
})

test('with another key webhooks fail with a record that says why', async () => {
  const key = (digit: string) => ({ 'auth.encryption_key': digit.repeat(64), 'webhooks.retry_delays': [] })
  const before = await startServer({ config: key('1') })
  await before.sql('create table notes (id serial primary key, v text)')
  const sink = await startReceiver()
  after(() => sink.close())
  const hook = await before.call('POST /api/webhooks', { as: 'admin', json: { url: sink.url, secret: 'hush' } })
  await before.stop()

  const api = await startServer({ on: before, config: key('2') })
  await eventually(() =>
    assert.ok(api.observations.some(({ message }) => message.startsWith('1 webhook secrets cannot be read'))),
  )
  assert.equal((await api.call('POST /api/collections/notes', { json: { v: 'x' } })).status, 201)
  const reason = 'a stored secret cannot be read: name its key in auth.previous_encryption_keys'
  await eventually(async () => {
    const { body } = await api.call(`GET /api/webhooks/${hook.body.id}/deliveries`, { as: 'admin' })
    assert.deepEqual([body.totalItems, body.items[0]?.success, body.items[0]?.error], [1, false, reason])
  })
  const tested = await api.call(`POST /api/webhooks/${hook.body.id}/test`, { as: 'admin' })
  assert.deepEqual([tested.status, tested.body.success, tested.body.error], [200, false, reason])
  assert.equal(sink.received.length, 0)
})
