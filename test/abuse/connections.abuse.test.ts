import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, eventually, type InProcessServer, startServer } from '../kit/kit.ts'

/** What waits, and computes next to nothing, until the gate is open; the state of a sequence is seen by statements that began before. */
const SETUP = `
  create table notes (id int primary key, n int not null default 0);
  insert into notes select generate_series(1, 50);
  create sequence gate;
  grant select on gate to public;
  create function pass() returns int language plpgsql volatile as $$ begin
    while not (select is_called from gate) loop perform pg_sleep(0.1); end loop;
    return 1; end $$;
  create view gated as select id, pass() as passed from notes where id = 1;
  create function quick() returns int language sql as 'select 1';`

/** More than there are connections, of each kind of work that may take long. */
const CROWD = 60
const floods: Record<string, (api: InProcessServer) => Promise<Answer>> = {
  functions: (api) => api.call('POST /api/rpc/pass', { json: {} }),
  lists: (api) => api.call('GET /api/collections/gated'),
  'lists by GraphQL': (api) => api.call('POST /api/graphql', { json: { query: '{ gated { id passed } }' } }),
}

const running = async (api: InProcessServer): Promise<number> => {
  const [row] = await api.sql(`select count(*) as n from pg_stat_activity
    where state = 'active' and wait_event = 'PgSleep' and datname = current_database()`)
  return Number(row.n)
}

for (const [maxConns, atOnce] of [
  [5, 2],
  [25, 16],
] as const) {
  test(`with ${maxConns} connections ${atOnce} long calls run at once, and no kind of work waits for another`, async () => {
    const api = await startServer({ config: { 'database.max_conns': maxConns } })
    await api.sql(SETUP)
    const password = 'long enough password'
    const { token } = await api.signUp('ana@x.test', password)
    const admin = await api.adminToken()
    let id = 1000
    const others: Record<string, () => Promise<Answer>> = {
      'read by id': () => api.call('GET /api/collections/notes/7'),
      list: () => api.call('GET /api/collections/notes?perPage=5&sort=-id'),
      'list of a new shape': () =>
        api.call(`GET /api/collections/notes?filter=${encodeURIComponent(`id>${'0'.repeat(id - 999)}`)}`),
      create: () => api.call('POST /api/collections/notes', { json: { id: id++ } }),
      update: () => api.call('PATCH /api/collections/notes/8', { json: { n: 1 } }),
      'auth/me': () => api.call('GET /api/auth/me', { as: token }),
      login: () => api.call('POST /api/auth/login', { json: { email: 'ana@x.test', password } }),
      stats: () => api.call('GET /api/admin/stats', { as: admin }),
      sql: () => api.call('POST /api/admin/sql', { as: admin, json: { query: 'select 1' } }),
    }
    for (const [flood, call] of Object.entries(floods)) {
      const crowd = Array.from({ length: CROWD }, () => call(api))
      // No more connections are left idle than are reserved for work that may come.
      await eventually(async () => assert.ok((await running(api)) >= atOnce, flood))
      for (const [name, other] of Object.entries(others)) {
        const { status, text } = await other()
        assert.ok(status < 300, `${name} beside ${flood}: ${status} ${text}`)
      }
      await api.sql(`select nextval('gate')`)
      const refused = (await Promise.all(crowd)).filter(({ status }) => status !== 200)
      assert.deepEqual(
        refused.map(({ status, text }) => `${flood}: ${status} ${text}`),
        [],
      )
      await api.sql('alter sequence gate restart')
    }
  })
}
