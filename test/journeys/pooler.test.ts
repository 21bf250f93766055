import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listenTo } from '../kit/event-stream.ts'
import { startServer } from '../kit/kit.ts'
import { noPgbouncer, startPgbouncer } from '../kit/pgbouncer.ts'

const NOTES = `
  create table notes (id int generated always as identity primary key, title text,
    owner uuid not null default current_setting('svc.user_id')::uuid);
  alter table notes enable row level security;
  create policy own on notes using (owner::text = current_setting('svc.user_id', true));
  create function whoami() returns text language sql stable as 'select current_setting(''svc.user_id'', true)'`

test('behind a transaction pooler everything works, and no identity bleeds', {
  skip: noPgbouncer ?? false,
}, async () => {
  const direct = await startServer()
  await direct.sql(NOTES)
  const pooler = await startPgbouncer(direct.databaseUrl, { poolSize: 4 })
  const api = await startServer({
    on: direct,
    config: {
      'database.url': pooler.url,
      'database.direct_url': direct.databaseUrl,
      'database.prepared_statements': false,
    },
  })
  const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
  const stream = await listenTo(api.url, { token: ana.token, query: { tables: 'notes' } })

  const operations = Array.from({ length: 100 }, (_, i) => ({ method: 'create', body: { title: `note ${i}` } }))
  const batch = await api.call('POST /api/collections/notes/batch', { as: ana.token, json: { operations } })
  assert.equal(batch.status, 200)
  assert.equal((await api.call('PATCH /api/collections/notes/1', { as: ana.token, json: { title: 'x' } })).status, 200)
  await stream.until(({ data }) => data.action === 'update' && data.record.title === 'x')
  stream.close()

  const seen = await Promise.all(
    Array.from({ length: 120 }, async (_, i) => {
      const who = [ana, bo, undefined][i % 3]
      const as = who ? { as: who.token } : {}
      const [list, me] = await Promise.all([
        api.call('GET /api/collections/notes?perPage=1', as),
        api.call('POST /api/rpc/whoami', { ...as, json: {} }),
      ])
      return [list.body.totalItems, me.body, who === ana ? 100 : 0, who?.user.id ?? '']
    }),
  )
  for (const [total, id, expectedTotal, expectedId] of seen) assert.deepEqual([total, id], [expectedTotal, expectedId])

  const keyed = await Promise.all(
    Array.from({ length: 60 }, (_, i) => {
      const headers = { 'idempotency-key': `note-${i % 20}` }
      const json = { title: `keyed ${i % 20}` }
      return api.call('POST /api/collections/notes', { as: bo.token, json, headers })
    }),
  )
  assert.ok(keyed.every(({ status, body }) => status === 201 && body.owner === bo.user.id))
  assert.equal(keyed.filter(({ headers }) => headers.get('idempotency-replayed') === 'true').length, 40)
  assert.equal(Number((await direct.sql(`select count(*) as n from notes where title like 'keyed %'`))[0].n), 20)

  const { refreshToken } = bo
  assert.equal((await api.call('POST /api/auth/refresh', { json: { refreshToken } })).status, 200)
  await direct.sql('create table later (id int primary key)')
  assert.equal((await api.call('GET /api/collections/later')).status, 200)
  await api.stop()
  await pooler.stop()
})
