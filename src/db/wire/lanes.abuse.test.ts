import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../test/kit.ts'

const SETUP = `
  create table notes (id int primary key, n int not null default 0);
  insert into notes select generate_series(1, 200);
  create table marks (at timestamptz not null default clock_timestamp());
  create function slow(seconds float8) returns void language sql as 'select pg_sleep(seconds)';
  create function mark() returns void language plpgsql as $$ begin
    perform pg_sleep(0.2); insert into marks default values; end $$;
  create function wait_a_little(n int) returns int language plpgsql stable as $$ begin perform pg_sleep(0.4); return n; end $$;
  create view heavy as select id, wait_a_little(n) as n from notes where id <= 40;
`

test('slow lists and slow functions of strangers stop neither reads by id, nor accounts, nor the operator', async () => {
  const api = await startServer({ config: { 'database.max_conns': 12 } })
  await api.sql(SETUP)
  const user = await api.signUp('ordinary@x.test')
  const token = await api.adminToken()
  const leave = new AbortController()
  const slowOnes = [
    ...Array.from({ length: 16 }, () => api.call('GET /api/collections/heavy', { signal: leave.signal })),
    ...Array.from({ length: 60 }, () =>
      api.call('POST /api/rpc/slow', { json: { seconds: 20 }, signal: leave.signal }),
    ),
  ].map((call) => call.catch(() => undefined))
  await eventually(async () => {
    const [{ n }] = (await api.sql(
      `select count(*) as n from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`,
    )) as [{ n: string }]
    assert.ok(Number(n) >= 3, `${n} are sleeping`)
  })

  const ordinary = {
    'read by id': () => api.call('GET /api/collections/notes/7'),
    list: () => api.call('GET /api/collections/notes?perPage=2'),
    write: () => api.call('PATCH /api/collections/notes/8', { json: { n: 1 } }),
    'auth/me': () => api.call('GET /api/auth/me', { as: user.token }),
    login: () =>
      api.call('POST /api/auth/login', { json: { email: 'ordinary@x.test', password: 'long enough password' } }),
    stats: () => api.call('GET /api/admin/stats', { as: token }),
  }
  for (let round = 0; round < 5; round++) {
    for (const [name, call] of Object.entries(ordinary)) {
      const { status, text } = await call()
      assert.equal(status, 200, `${name}: ${text}`)
    }
  }
  leave.abort()
  await Promise.all(slowOnes)
})

test('while one row is locked, writes to other rows and reads do not wait', async () => {
  const api = await startServer({ config: { 'database.max_conns': 25 } })
  await api.sql(SETUP)
  await api.sql(`begin; update notes set n = n where id = 1`)
  const stuck = api.call('PATCH /api/collections/notes/1', { json: { n: 5 } })
  await eventually(async () => {
    const held = await api.call('POST /api/admin/sql', {
      as: 'admin',
      json: { query: `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%notes%'` },
    })
    assert.equal(held.body.rowCount, 1, held.text)
  })
  const others = Array.from({ length: 120 }, (_, i) => {
    const path = `/api/collections/notes/${2 + i}` as const
    return i % 2 === 0 ? api.call(`PATCH ${path}`, { json: { n: i } }) : api.call(`GET ${path}`)
  })
  for (const { status, text } of await Promise.all(others)) assert.equal(status, 200, text)
  await api.sql('commit')
  assert.equal((await stuck).status, 200, 'the lock outlived all the others')
})

test('calls whose client left while they waited never run', async () => {
  const api = await startServer({ config: { 'database.max_conns': 4 } })
  await api.sql(SETUP)
  const leave = new AbortController()
  const calls = Array.from({ length: 40 }, () =>
    api.call('POST /api/rpc/mark', { signal: leave.signal }).catch(() => undefined),
  )
  await eventually(async () => {
    const rows = await api.sql(
      `select 1 from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`,
    )
    assert.ok(rows.length > 0)
  })
  leave.abort()
  await Promise.all(calls)
  assert.equal((await api.call('POST /api/rpc/mark')).status, 204) // whatever was queued before it had its turn
  const [{ n }] = (await api.sql('select count(*) as n from marks')) as [{ n: string }]
  assert.ok(Number(n) <= 5, `${n} of 40 ran`)
})

test('an answer that is too large is refused, and costs nobody else anything', async () => {
  const api = await startServer()
  await api.sql(`
    create table pages (id int primary key, body text);
    insert into pages select i, repeat(md5(i::text), 31250) from generate_series(1, 90) i`)
  for (let i = 0; i < 2; i++) {
    const { status, body } = await api.call('GET /api/collections/pages?perPage=100')
    assert.deepEqual([status, body], [413, { code: 413, message: 'response too large' }])
  }
  const small = await api.call('GET /api/collections/pages?perPage=2')
  assert.equal(small.status, 200)
  assert.equal(small.body.items.length, 2)
})
