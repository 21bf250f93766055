import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer, type TestServer } from '../../../test/kit/kit.ts'
import { Connection } from '../protocol/connection.ts'
import { openConnection } from '../protocol/driver.ts'

const SETUP = `
  create table notes (id int primary key, n int not null default 0, label text not null default 'note');
  insert into notes select generate_series(1, 400);
  create function slow(seconds float8) returns void language sql as 'select pg_sleep(seconds)';
  create sequence begun;
  grant usage on sequence begun to public;
  create function wait_long(n int) returns int language plpgsql stable as $$ begin
    perform nextval('begun'); perform pg_sleep(25); return n; end $$;
  create view heavy as select id, label, wait_long(n) as n from notes where id = 1;
`

/** How many calls of functions that say so have begun. */
const begun = async (api: TestServer): Promise<number> => {
  const [row] = await api.sql('select case when is_called then last_value else 0 end as n from begun')
  return Number(row.n)
}

/** Filters of different statements, true of every row. */
const shape = (i: number): string =>
  ["label~'n%'", 'id>0', 'id<1000', "label!='x'", 'id!=0', "label>'a'", "label<'z'", 'id>=1']
    .filter((_, bit) => (i + 1) & (1 << bit))
    .join(' AND ')

test('slow lists and slow functions of strangers stop neither reads by id, nor accounts, nor the operator', async () => {
  // What waits for a connection may wait long: a slow machine is no failure, a stranger's statement in front is.
  const api = await startServer({ config: { 'database.max_conns': 12, 'database.acquire_timeout': 60 } })
  await api.sql(SETUP)
  const user = await api.signUp('ordinary@x.test')
  const token = await api.adminToken()
  const ordinary = {
    'read by id': () => api.call('GET /api/collections/notes/7'),
    list: () => api.call('GET /api/collections/notes?perPage=2'),
    write: () => api.call('PATCH /api/collections/notes/8', { json: { n: 1 } }),
    'auth/me': () => api.call('GET /api/auth/me', { as: user.token }),
    login: () =>
      api.call('POST /api/auth/login', { json: { email: 'ordinary@x.test', password: 'long enough password' } }),
    stats: () => api.call('GET /api/admin/stats', { as: token }),
  }
  const all = async () => {
    for (const [name, call] of Object.entries(ordinary)) {
      const { status, text } = await call()
      assert.equal(status, 200, `${name}: ${text}`)
    }
  }
  await all()
  const leave = new AbortController()
  const LISTS = 240
  const lists = Array.from({ length: LISTS }, (_, i) => {
    const filter = i < LISTS / 2 ? '' : `?filter=${encodeURIComponent(shape(i))}`
    return api.call(`GET /api/collections/heavy${filter}`, { signal: leave.signal })
  })
  const functions = Array.from({ length: 60 }, () =>
    api.call('POST /api/rpc/slow', { json: { seconds: 25 }, signal: leave.signal }),
  )
  const slowOnes = [...lists, ...functions].map((call) => call.catch(() => undefined))
  await eventually(async () => assert.ok((await begun(api)) > 4, 'they have begun'))

  for (let round = 0; round < 3; round++) await all()
  leave.abort()
  await Promise.all(slowOnes)
})

/** A function, and a table whose writes wait until the gate is opened, however long the machine takes for anything else. */
const GATED = `
  create table gate (is_open boolean);
  create function hold() returns void language plpgsql as $$ begin
    perform nextval('begun');
    while not exists (select from gate) loop perform pg_sleep(0.1); end loop;
  end $$;
  create function pass_gate() returns trigger language plpgsql as $$ begin
    perform hold(); return coalesce(new, old); end $$;
  create table gated (id int primary key, n int not null default 0);
  insert into gated select generate_series(1, 20);
  create trigger waits before update or delete on gated for each row execute function pass_gate();
`
const PATIENT = { 'database.acquire_timeout': 200, 'api.statement_timeout': 250 }

test('while writes wait and more of them come than there are connections, other writes and reads do not', async () => {
  const api = await startServer({ config: { ...PATIENT, 'database.max_conns': 25 } })
  await api.sql(SETUP)
  await api.sql(GATED)
  const stuck = Array.from({ length: 20 }, (_, i) =>
    api.call(`PATCH /api/collections/gated/${1 + i}`, { json: { n: 5 } }),
  )
  await eventually(async () => assert.ok((await begun(api)) > 4, 'they have begun'))
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, i) => {
      const path = `/api/collections/notes/${1 + i}` as const
      return i % 2 === 0 ? api.call(`PATCH ${path}`, { json: { n: i } }) : api.call(`GET ${path}`)
    }),
  )
  for (const { status, text } of answers) assert.equal(status, 200, text)
  // What was cut short comes to its end, once.
  await api.sql('insert into gate values (true)')
  for (const { status, text } of await Promise.all(stuck)) assert.equal(status, 200, text)
  const [{ changes }] = await api.sql(`select count(*) as changes from svc.changes where table_name = 'gated'`)
  assert.equal(Number(changes), 20)
})

test('of small writes that share connections, one that waits for a stranger’s lock holds up no other and is done once', async () => {
  const api = await startServer()
  await api.sql('create table rows (id int primary key)')
  const stranger = await openConnection({ url: api.databaseUrl })
  for (const end of ['rollback', 'commit']) {
    const id = end === 'commit' ? 1 : 2
    await stranger.query(`begin; insert into rows values (${id})`)
    const stuck = api.call('POST /api/collections/rows', { json: { id } })
    const others = await Promise.all(
      Array.from({ length: 100 }, (_, i) => api.call('POST /api/collections/rows', { json: { id: id * 1000 + i } })),
    )
    assert.deepEqual([...new Set(others.map(({ status }) => status))], [201])
    await stranger.query(end)
    assert.equal((await stuck).status, end === 'commit' ? 409 : 201)
  }
  await stranger.end()
  const [{ n }] = await api.sql(`select count(*)::int as n from svc.changes where table_name = 'rows' and key = '2'`)
  assert.equal(Number(n), 1, 'what was flown again is logged once')
})

test('those who write to one row hold one connection between them', async () => {
  const api = await startServer({ config: PATIENT })
  await api.sql(SETUP)
  await api.sql(GATED)
  const stuck = Array.from({ length: 20 }, (_, i) =>
    i % 2
      ? api.call('PATCH /api/collections/gated/1', { json: { n: i } })
      : api.call('DELETE /api/collections/gated/1'),
  )
  await eventually(async () => assert.ok((await begun(api)) > 0, 'one of them has begun'))
  for (let id = 2; id < 40; id++) {
    assert.equal((await api.call(`PATCH /api/collections/notes/${id}`, { json: { n: 1 } })).status, 200)
  }
  // Once more if it was cut short.
  assert.ok((await begun(api)) <= 2, `${await begun(api)} began`)
  await api.sql('insert into gate values (true)')
  // 503: a request waits for a row no longer than for a lock.
  for (const { status } of await Promise.all(stuck)) assert.ok([200, 204, 404, 503].includes(status), `${status}`)
})

test('a bad request takes no connection', async (t) => {
  const api = await startServer()
  await api.sql(SETUP)
  const { token } = await api.signUp('bad@x.test')
  await api.call('GET /api/collections/notes/1', { as: token })
  const bad = [
    () => api.call('GET /api/collections/notes/1', { as: 'no.such.token' }),
    () => api.call('GET /api/collections/notes/1', { as: `${token}x` }),
    () => api.call('GET /api/collections/notes?filter=nothing%3D1'),
    () => api.call('GET /api/collections/notes?filter=((('),
    () => api.call('GET /api/collections/notes?sort=nothing'),
    () => api.call('POST /api/collections/notes', { body: '{"n":', headers: { 'content-type': 'application/json' } }),
    () => api.call('POST /api/collections/notes', { json: { nothing: 1 } }),
    () => api.call('POST /api/rpc/slow', { json: { nothing: 1 } }),
  ]
  const sent = t.mock.method(Connection.prototype, 'send')
  const began = performance.now()
  for (const call of bad) {
    for (let i = 0; i < 10; i++) {
      const { status, text } = await call()
      assert.ok(status >= 400 && status < 500, `${status} ${text}`)
    }
  }
  const statements = sent.mock.calls.map(({ arguments: [flight] }) => flight.plan)
  assert.deepEqual(
    statements.filter(({ role }) => role.startsWith('svc_')).map(({ steps }) => steps.at(-1)?.text),
    [],
  )
  // The server's own rounds go on meanwhile, a few each second, but not with every call.
  const most = bad.length * 5 + (performance.now() - began) / 200
  const own = new Map<string, number>()
  for (const { steps } of statements) {
    const text = steps.at(-1)?.text ?? ''
    own.set(text, (own.get(text) ?? 0) + 1)
  }
  for (const [text, count] of own) assert.ok(count < most, `${count} × ${text}`)
})

test('with five connections calls of a function run beside each other, all are served, and the rest goes on', async () => {
  const api = await startServer({ config: { ...PATIENT, 'database.max_conns': 5 } })
  await api.sql(SETUP)
  await api.sql(GATED)
  await api.signUp('ordinary@x.test')
  const calls = Array.from({ length: 20 }, () => api.call('POST /api/rpc/hold'))
  await eventually(async () => assert.equal(await begun(api), 2, 'two at a time'))
  for (let id = 1; id <= 10; id++) assert.equal((await api.call(`GET /api/collections/notes/${id}`)).status, 200)
  assert.equal((await api.call('PATCH /api/collections/notes/1', { json: { n: 1 } })).status, 200)
  const login = { email: 'ordinary@x.test', password: 'long enough password' }
  assert.equal((await api.call('POST /api/auth/login', { json: login })).status, 200)
  await api.sql('insert into gate values (true)')
  for (const { status, text } of await Promise.all(calls)) assert.equal(status, 204, text)
})

test('calls whose client left while they waited never run', async () => {
  // Functions run one at a time.
  const api = await startServer({ config: { ...PATIENT, 'database.max_conns': 4 } })
  await api.sql(SETUP)
  await api.sql(GATED)
  const first = api.call('POST /api/rpc/hold')
  await eventually(async () => assert.equal(await begun(api), 1))
  const leave = new AbortController()
  const calls = Array.from({ length: 40 }, () =>
    api.call('POST /api/rpc/hold', { signal: leave.signal }).catch(() => undefined),
  )
  const others = async () => {
    for (let id = 1; id <= 10; id++) assert.equal((await api.call(`GET /api/collections/notes/${id}`)).status, 200)
  }
  await others() // what was sent before them has arrived
  leave.abort()
  await Promise.all(calls)
  await others() // and so has the disconnect of its client
  await api.sql('insert into gate values (true)')
  assert.equal((await first).status, 204)
  assert.equal((await api.call('POST /api/rpc/slow', { json: { seconds: 0 } })).status, 204) // the last in the queue
  assert.equal(await begun(api), 1)
})

test('a write that was left is ended, also if PostgreSQL was asked to before it had begun', async () => {
  // Writes run one at a time.
  const api = await startServer({ config: { ...PATIENT, 'database.max_conns': 4 } })
  await api.sql(SETUP)
  await api.sql(GATED)
  const others = async () => {
    for (let id = 1; id <= 10; id++) assert.equal((await api.call(`GET /api/collections/notes/${id}`)).status, 200)
  }
  assert.equal((await api.call('PATCH /api/collections/notes/1', { json: { n: 1 } })).status, 200)
  const idle = await api.sql(`
    select pid from pg_stat_activity where datname = current_database() and usename like 'svc_auth%'`)
  for (const { pid } of idle) process.kill(pid, 'SIGSTOP')
  const leave = new AbortController()
  const left = api
    .call('PATCH /api/collections/gated/1', { json: { n: 1 }, signal: leave.signal })
    .catch(() => undefined)
  try {
    await others()
    leave.abort()
    await left
    await others()
  } finally {
    for (const { pid } of idle) process.kill(pid, 'SIGCONT')
  }
  assert.equal((await api.call('PATCH /api/collections/notes/1', { json: { n: 2 } })).status, 200)
  const rows = await api.sql('select n from gated where id = 1')
  assert.deepEqual(
    rows.map(({ n }) => Number(n)),
    [0],
  )
})

test('an answer that is too large is refused, and costs nobody else anything', async () => {
  const api = await startServer()
  await api.sql(`
    create table pages (id int primary key, body text);
    insert into pages select i, repeat(md5(i::text), 31250) from generate_series(1, 90) i`)
  for (let i = 0; i < 2; i++) {
    const { status, body } = await api.call('GET /api/collections/pages?perPage=100')
    assert.deepEqual([status, body], [413, { code: 413, error: 'response_too_large', message: 'response too large' }])
  }
  const small = await api.call('GET /api/collections/pages?perPage=2')
  assert.equal(small.status, 200)
  assert.equal(small.body.items.length, 2)
})
