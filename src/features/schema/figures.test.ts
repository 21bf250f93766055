import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`create table parts (id int, at date) partition by range (at);
  create table parts_1 partition of parts for values from ('2026-01-01') to ('2027-01-01');
  insert into parts select i, '2026-05-05' from generate_series(1, 70) i;
  create table notes (id int primary key, title text);
  insert into notes select i, 'x' from generate_series(1, 30) i;
  create table fresh (id int);
  alter table fresh set (autovacuum_enabled = off);
  create table "odd "" name" (id int);
  revoke all on notes, "odd "" name" from svc_anon, svc_authenticated;
  grant select (id), delete on notes to svc_authenticated;
  grant select on notes to svc_anon;
  select svc.watch('public.notes')`)
await api.sql('analyze')

test('of every table there are rows, bytes, grants and whether it is watched; reading them leaves nothing in the audit', async () => {
  const trail = () => api.sql("select count(*) from svc.audit_log where action = 'sql.execute'")
  const before = await trail()
  const { status, body, text } = await api.call('GET /api/admin/schema/figures', { as: 'admin' })
  assert.equal(status, 200, text)
  assert.ok(body.database.size > 1_000_000 && /^\d/.test(body.database.version) && body.database.name)
  const of = (name: string) => body.tables.find((table: { name: string }) => table.name === name)
  const { size, ...notes } = of('notes')
  assert.deepEqual(notes, {
    schema: 'public',
    name: 'notes',
    rows: 30,
    live: true,
    visitors: ['SELECT'],
    users: ['SELECT', 'DELETE'],
  })
  assert.ok(size >= 8192)
  assert.deepEqual([of('parts').rows, of('parts').live], [70, false])
  assert.deepEqual([of('odd " name').visitors, of('odd " name').users], [[], []])
  assert.ok(!body.tables.some(({ schema }: { schema: string }) => schema === 'svc' || schema === 'pg_catalog'))
  assert.deepEqual(await trail(), before)
  const user = await api.signUp('ana@x.test')
  assert.equal((await api.call('GET /api/admin/schema/figures', { as: user.token })).status, 401)
})
