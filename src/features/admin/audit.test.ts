import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit.ts'
import { auditStatement } from '../../db/audit.ts'
import { auditableQuery, parseFilter } from './audit.ts'

const api = await startServer()
const audit = async (query = '') => (await api.call(`GET /api/admin/audit${query}`, { as: 'admin' })).body
const sql = (query: string) => api.call('POST /api/admin/sql', { as: 'admin', json: { query } })

test('admin SQL leaves its text in the trail, also when it failed', async () => {
  await sql('select 42 as answer')
  await sql('select 1/0')
  const { items, count, limit, offset } = await audit('?action=sql.execute')
  assert.deepEqual([count, limit, offset], [2, 100, 0])
  const [failed, done] = items
  assert.deepEqual(failed.new_values, { query: 'select 1/0', error: 'division by zero' })
  assert.deepEqual(done.new_values, { query: 'select 42 as answer' })
  assert.equal(done.actor, 'admin')
  assert.equal(done.action, 'sql.execute')
  assert.match(done.id, /^[0-9a-f-]{36}$/)
  assert.match(done.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
  assert.match(done.ip_address, /127\.0\.0\.1/)
  assert.ok(!('user_id' in done) && !('old_values' in done))
})

test('the trail is filtered by every parameter', async () => {
  const user = '00000000-0000-4000-8000-000000000001'
  await api.sql(`
    insert into svc.audit_log (at, actor, action, target, user_id, table_name, record_id, operation, old_values, new_values)
    values ('2026-01-01T10:00:00Z', 'user', 'record.update', 'notes', '${user}', 'notes', '1', 'UPDATE', '{"a":null}', '{"a":1}'),
           ('2026-01-02T23:59:59Z', 'user', 'record.delete', 'notes', '${user}', 'notes', '1', 'DELETE', '{"a":1}', null),
           ('2026-01-03T00:00:00Z', 'anonymous', 'record.create', 'tasks', null, 'tasks', '2', 'INSERT', null, '{}')`)
  const actions = async (query: string) => (await audit(query)).items.map(({ action }: { action: string }) => action)
  assert.deepEqual(await actions('?table=notes'), ['record.delete', 'record.update'])
  assert.deepEqual(await actions(`?user_id=${user}&operation=update`), ['record.update'])
  assert.deepEqual(await actions('?operation=INSERT'), ['record.create'])
  assert.deepEqual(await actions('?from=2026-01-02&to=2026-01-02'), ['record.delete'])
  assert.deepEqual(await actions('?from=2026-01-01T10:00:01Z&to=2026-01-03T02:00:00%2B02:00'), [
    'record.create',
    'record.delete',
  ])
  assert.deepEqual(await actions('?to=2026-01-03&limit=1&offset=1'), ['record.delete'])
  const [update] = (await audit('?action=record.update')).items
  assert.deepEqual(update.old_values, { a: null })
  assert.equal(update.record_id, '1')
})

test('bad filters are refused by name, bad pages are not', async () => {
  const message = async (query: string) => (await audit(query)).message
  assert.equal(await message('?user_id=x'), 'invalid user_id format')
  assert.equal(await message('?operation=TRUNCATE'), 'invalid operation')
  for (const bad of [
    'x',
    '2026-13-01',
    '2026-02-30',
    '2026-01-01T25:00:00Z',
    '2026-01-01T10:00:00',
    '1',
    '2026-01-01x',
  ]) {
    assert.equal(await message(`?from=${bad}`), 'invalid from', bad)
    assert.equal(await message(`?to=${bad}`), 'invalid to', bad)
  }
  const { limit, offset } = await audit('?limit=9999&offset=-1')
  assert.deepEqual([limit, offset], [500, 0])
  assert.equal((await audit('?limit=x')).limit, 100)
})

test('secrets do not get into the trail', () => {
  const { values } = auditStatement({
    who: { kind: 'system' },
    action: 'x',
    target: '',
    ip: '',
    newValues: {
      name: 'a',
      password: 'p',
      nested: { clientSecret: 's', token_hash: 'h' },
      api_key: 'k',
      key: 'k',
      totp_enabled: true,
    },
  }).render()
  assert.deepEqual(JSON.parse(String(values.find((value) => String(value).startsWith('{')))), {
    name: 'a',
    password: '***',
    nested: { clientSecret: '***', token_hash: '***' },
    api_key: '***',
    key: '***',
    totp_enabled: true,
  })
  assert.equal(auditableQuery(`alter role x PASSWORD 'it''s'; select 1`), `alter role x PASSWORD '***'; select 1`)
  assert.equal(auditableQuery(`create user x password $q$y$q$ login`), `create user x password '***' login`)
})

test('a date ends with its day, a time at its instant', () => {
  assert.deepEqual(parseFilter({ to: '2026-01-31' }).until, new Date('2026-02-01T00:00:00Z'))
  assert.deepEqual(parseFilter({ to: '2026-01-31T10:00:00+02:00' }).to, new Date('2026-01-31T08:00:00Z'))
  assert.deepEqual(parseFilter({ from: '2026-01-31T10:00:00 02:00' }).from, new Date('2026-01-31T08:00:00Z'))
})

test('logs are the newest entries of the ring buffer, and stats are numbers', async () => {
  const logs = await api.call('GET /api/admin/logs', { as: 'admin' })
  assert.equal(logs.status, 200)
  assert.ok(Array.isArray(logs.body.entries))
  const off = await startServer({ config: { 'log.buffer_size': 0 } })
  assert.deepEqual((await off.call('GET /api/admin/logs', { as: 'admin' })).body, {
    entries: [],
    message: 'log buffer is off',
  })
  const { body } = await api.call('GET /api/admin/stats', { as: 'admin' })
  assert.match(body.version, /^\d+\.\d+\.\d+/)
  assert.equal(body.node_version, process.version)
  for (const name of [
    'uptime_seconds',
    'goroutines',
    'memory_alloc',
    'memory_sys',
    'gc_cycles',
    'db_pool_total',
    'db_pool_idle',
    'db_pool_in_use',
    'db_pool_max',
  ]) {
    assert.equal(typeof body[name], 'number', name)
  }
  assert.equal(body.db_pool_max, 8)
})
