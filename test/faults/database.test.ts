import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startPrivateCluster } from '../kit/cluster.ts'
import { eventually, startServer } from '../kit/kit.ts'
import { ROUNDS } from './rounds.ts'

const SELECT_ONE = { as: 'admin', json: { query: 'select 1' } } as const

test('PostgreSQL killed under load: 503 with Retry-After at once, then 200 again without a restart', async () => {
  const cluster = await startPrivateCluster()
  const api = await startServer({ config: { 'database.url': cluster.url, 'database.acquire_timeout': 10 } })
  const token = await api.adminToken()
  const statuses = new Map<number, number>()
  let stop = false
  const client = async () => {
    while (!stop) {
      // What hangs fails; refused is refused at once, however busy the machine.
      const signal = AbortSignal.timeout(60_000)
      const { status, headers, body } = await api.call('GET /api/admin/apps', { as: token, signal })
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (status === 503) {
        assert.equal(headers.get('retry-after'), '1')
        assert.deepEqual(body, { code: 503, error: 'database_unavailable', message: 'database unavailable' })
      }
    }
  }
  const clients = Promise.all(Array.from({ length: 8 }, client))
  for (let round = 0; round < ROUNDS; round++) {
    await eventually(async () => assert.equal((await api.call('GET /health')).status, 200))
    const before = statuses.get(503) ?? 0
    cluster.kill()
    await eventually(() => assert.ok((statuses.get(503) ?? 0) > before, 'the outage was noticed'))
    const worked = statuses.get(200) ?? 0
    await eventually(() => assert.ok((statuses.get(200) ?? 0) > worked + 20, 'requests are served again'))
  }
  stop = true
  await clients
  assert.deepEqual([...statuses.keys()].sort(), [200, 503])
  const { status } = await api.call('POST /api/admin/sql', SELECT_ONE)
  assert.equal(status, 200)
})

test('a PostgreSQL that hangs: /health turns, requests end with 503, and all is well after it wakes', async () => {
  const cluster = await startPrivateCluster()
  const api = await startServer({ config: { 'database.url': cluster.url, 'database.acquire_timeout': 5 } })
  const token = await api.adminToken()
  await eventually(async () => assert.equal((await api.call('GET /api/admin/apps', { as: token })).status, 200))
  cluster.signalAll('SIGSTOP')
  try {
    const hanging = api.call('GET /api/admin/apps', { as: token })
    await eventually(async () => assert.equal((await api.call('GET /health')).status, 503))
    const { body } = await api.call('GET /health')
    assert.deepEqual(body, { status: 'degraded', database: 'unreachable' })
    assert.equal((await api.call('GET /api/admin/apps', { as: token })).status, 503)
    assert.equal((await hanging).status, 503)
  } finally {
    cluster.signalAll('SIGCONT')
  }
  await eventually(async () => assert.equal((await api.call('GET /api/admin/apps', { as: token })).status, 200))
  await eventually(async () => assert.equal((await api.call('GET /health')).status, 200))
})

test('a database whose disk is full answers 507 to writes and logins, reads go on, and room makes it work again', async () => {
  const api = await startServer()
  await api.sql('create table notes (id int primary key, text text); insert into notes values (1, $$kept$$)')
  const { token, user } = await api.signUp('full@disk.test')
  const asAdmin = await api.adminToken()
  const noRoom = (body: string) =>
    api.sql(`create or replace function no_room() returns trigger language plpgsql as $$ begin ${body} end $$`)
  await noRoom('return null;')
  // One lock at a time: the server is at work.
  await api.sql(`do $$ declare one regclass; begin
    for one in select oid from pg_class where relkind in ('r', 'p') and relnamespace in ('svc'::regnamespace, 'public'::regnamespace) loop
      execute format('create trigger no_room before insert or update on %s for each statement execute function public.no_room()', one);
      commit;
    end loop; end $$`)
  // As PostgreSQL raises it where a table or the log cannot grow.
  await noRoom(`raise exception 'could not extend file "base/1/2": No space left on device' using errcode = '53100';`)
  const full = { code: 507, error: 'insufficient_storage', message: 'the disk of the database is full' }
  const login = () =>
    api.call('POST /api/auth/login', { json: { email: 'full@disk.test', password: 'long enough password' } })
  const write = () => api.call('POST /api/collections/notes', { as: token, json: { id: 2, text: 'new' } })
  const app = () => api.call('POST /api/admin/apps', { as: asAdmin, json: { name: 'An app', ownerUserId: user.id } })
  for (const { status, body } of [await write(), await login(), await app()])
    assert.deepEqual([status, body], [507, full])
  const { body } = await api.call('GET /api/collections/notes', { as: token })
  assert.deepEqual(body.items, [{ id: 1, text: 'kept' }])
  for (const read of ['GET /api/auth/me', 'GET /health'] as const)
    assert.equal((await api.call(read, { as: token })).status, 200, read)
  for (const read of ['GET /api/admin/status', 'GET /api/admin/users'] as const)
    assert.equal((await api.call(read, { as: asAdmin })).status, 200, read)
  await noRoom('return null;')
  assert.deepEqual([(await write()).status, (await login()).status], [201, 200])
})
