import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listenTo } from '../kit/event-stream.ts'
import { type InProcessServer, startServer } from '../kit/kit.ts'
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

/** What an operator may have set for the database, which the server neither reads nor writes by. */
const OTHERS = {
  array_nulls: 'off',
  backslash_quote: 'off',
  bytea_output: 'escape',
  DateStyle: 'German, DMY',
  extra_float_digits: '-3',
  IntervalStyle: 'iso_8601',
  quote_all_identifiers: 'on',
  row_security: 'off',
  standard_conforming_strings: 'off',
  TimeZone: 'Asia/Tokyo',
  transform_null_equals: 'on',
}

/** Everything whose form or meaning a setting decides. */
async function answersOf(api: InProcessServer): Promise<unknown[]> {
  const answers: unknown[] = []
  const call = async (...[request, options]: Parameters<InProcessServer['call']>): Promise<void> => {
    const { status, body } = await api.call(request, options)
    assert.ok(status < 300, `${request}: ${JSON.stringify(body)}`)
    answers.push([request, body])
  }
  await api.sql('truncate things')
  const columns = 'id,t,b,d,r,i,f,e,at'
  const cells = `1,NULL,\\xdead,2026-02-01,"[2026-02-01,2026-03-02)",P1DT2H,0.30000000000000004,it's \\ 'so',2026-02-01 10:00:00`
  await call('POST /api/collections/things/import', {
    body: `${columns}\n${cells}\n2,,,,,,,,\n`,
    headers: { 'content-type': 'text/csv' },
  })
  await call('POST /api/collections/things/batch', {
    json: { operations: [{ method: 'create', body: { id: 3, t: "a\\'b", d: '02/03/2026', e: '\\' } }] },
  })
  await call('GET /api/collections/things?sort=id')
  await call(`GET /api/collections/things?filter=${encodeURIComponent(`e = '\\\\' || d < '2026-02-02'`)}`)
  await call('GET /api/collections/things/export.csv?sort=id')
  await call('GET /api/collections/things/1/history?perPage=1', { as: 'admin' })
  await call('POST /api/rpc/shown', { json: {} })
  await call('POST /api/rpc/german', { json: {} })
  await call('POST /api/admin/sql', {
    as: 'admin',
    json: { query: `select b, i, f, r, '\\' as s, null = null as n from things` },
  })
  const { body } = await api.call('GET /api/schema', { as: 'admin' })
  answers.push(body.tables['public.things'])
  return answers.map((answer) =>
    JSON.stringify(answer).replace(/"(id|at|transaction|request_id|durationMs|nextCursor)":(null|"[^"]*"|[\d.]+)/g, ''),
  )
}

test('settings of the database change no answer, whatever is between it and the server', {
  skip: noPgbouncer ?? false,
}, async (t) => {
  const plain = await startServer()
  await plain.sql(`
    create table things (id int primary key, t text, b bytea, d date, r daterange, i interval, f float8, e text, at timestamptz default '2026-02-01Z');
    alter table things enable row level security;
    create policy open on things using (e is distinct from 'it''s');
    create function shown() returns text language sql stable as
      'select string_agg(concat_ws('' '', t, b, d, r, i, f, at), ''; '' order by id) from things';
    create function german() returns text language sql stable set datestyle = 'German' as
      'select string_agg(d::text, '' '' order by id) from things';
    select svc.watch('things')`)
  await plain.call('GET /api/collections/things')
  const expected = await answersOf(plain)
  assert.match(String(expected), /01\.02\.2026/)
  for (const [name, value] of Object.entries(OTHERS)) {
    await plain.sql(
      `do $$ begin execute format('alter database %I set ${name} = %L', current_database(), '${value}'); end $$`,
    )
  }
  const ignored =
    'TimeZone,DateStyle,IntervalStyle,extra_float_digits,bytea_output,array_nulls,backslash_quote,quote_all_identifiers,row_security,standard_conforming_strings,transform_null_equals,xmlbinary,xmloption'
  const poolers = {
    transaction: await startPgbouncer(plain.databaseUrl, { poolSize: 4 }),
    session: await startPgbouncer(plain.databaseUrl, { mode: 'session', poolSize: 40 }),
    deaf: await startPgbouncer(plain.databaseUrl, { mode: 'session', poolSize: 40, ignored }),
  }
  t.after(() => Promise.all(Object.values(poolers).map((pooler) => pooler.stop())))
  const pooled = (url: string) => ({ 'database.url': url, 'database.prepared_statements': false })
  const ways = {
    none: {},
    transaction: { ...pooled(poolers.transaction.url), 'database.direct_url': plain.databaseUrl },
    session: pooled(poolers.session.url),
    deaf: pooled(poolers.deaf.url),
  }
  for (const [way, config] of Object.entries(ways)) {
    const api = await startServer({ on: plain, config })
    t.after(() => api.stop())
    assert.deepEqual(await answersOf(api), expected, way)
    await api.stop()
  }
})
