import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { parseAuditFilter } from './query.ts'

const api = await startServer()
const audit = async (query = '') => (await api.call(`GET /api/admin/audit${query}`, { as: 'admin' })).body

test('the trail is filtered by every parameter', async () => {
  const user = '00000000-0000-4000-8000-000000000001'
  await api.sql(`
    insert into svc.audit_log (at, actor, action, target, user_id, table_name, record_id, operation, old_values, new_values)
    values ('2026-01-01T10:00:00Z', 'user', 'record.update', 'notes', '${user}', 'notes', '{"id": 1}', 'UPDATE', '{"a":null}', '{"a":1}'),
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
  assert.deepEqual(update.record_id, { id: 1 })
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

test('a date ends with its day, a time at its instant', () => {
  assert.deepEqual(parseAuditFilter({ to: '2026-01-31' }).until, new Date('2026-02-01T00:00:00Z'))
  assert.deepEqual(parseAuditFilter({ to: '2026-01-31T10:00:00+02:00' }).to, new Date('2026-01-31T08:00:00Z'))
  assert.deepEqual(parseAuditFilter({ from: '2026-01-31T10:00:00 02:00' }).from, new Date('2026-01-31T08:00:00Z'))
})
