import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const asAdmin = { as: 'admin' }
const told = ({ status, body }: Answer) => `${status} ${body.message}`
const register = (json: object) => api.call('POST /api/admin/matviews', { ...asAdmin, json })
const registered = async (viewName: string, refreshMode = 'standard') => {
  const { status, body } = await register({ viewName, refreshMode })
  assert.equal(status, 201)
  return body.id as string
}
const refresh = (id: string) => api.call(`POST /api/admin/matviews/${id}/refresh`, asAdmin)
const NOBODY = '00000000-0000-4000-8000-000000000000'

await api.sql(`
  create table public.sales (id int primary key, amount int);
  insert into public.sales values (1, 10), (2, 20);
  create schema reports;
  create materialized view reports.totals as select sum(amount) as total from public.sales;
  create materialized view public.by_id as select * from public.sales;
  create unique index on public.by_id (id);
  create materialized view public.partly as select * from public.sales;
  create unique index on public.partly (id) where amount > 0;
  create unique index on public.partly ((id + 1));
  create materialized view public.empty as select * from public.sales with no data;
  create unique index on public.empty (id);
  create materialized view public.breaking as select 1 / (amount - 30) as n from public.sales;
  create materialized view public.slow as select pg_sleep(case when count(*) > 2 then 600 else 0 end)::text from public.sales;
  create view public.plain as select 1;`)

test('a view is registered, refreshed, listed and forgotten', async () => {
  const made = await register({ viewName: 'totals', schema: 'reports' })
  assert.equal(made.status, 201)
  const { id, createdAt, updatedAt, ...rest } = made.body
  assert.deepEqual(rest, {
    schemaName: 'reports',
    viewName: 'totals',
    refreshMode: 'standard',
    lastRefreshAt: null,
    lastRefreshDurationMs: null,
    lastRefreshStatus: null,
    lastRefreshError: null,
  })
  await api.sql(`insert into public.sales values (3, 5)`)
  await api.sql(`delete from public.sales where id = 3; insert into public.sales values (2000, 70)`)
  const { status, body } = await refresh(id)
  assert.equal(status, 200)
  assert.equal(body.registration.lastRefreshStatus, 'success')
  assert.equal(body.registration.lastRefreshDurationMs, body.durationMs)
  assert.ok(body.registration.lastRefreshAt)
  assert.deepEqual(await api.sql('select total from reports.totals'), [{ total: '100' }])
  await api.sql(`delete from public.sales where id = 2000`)
  assert.deepEqual((await api.call(`GET /api/admin/matviews/${id}`, asAdmin)).body, body.registration)
  await registered('by_id')
  const list = (await api.call('GET /api/admin/matviews', asAdmin)).body
  assert.equal(list.count, 2)
  assert.deepEqual(
    list.items.map((item: { viewName: string }) => item.viewName),
    ['by_id', 'totals'],
  )
  assert.equal((await api.call(`DELETE /api/admin/matviews/${id}`, asAdmin)).status, 204)
  assert.equal(told(await api.call(`DELETE /api/admin/matviews/${id}`, asAdmin)), '404 registration not found')
})

test('what cannot be registered is refused in the words of the contract', async () => {
  assert.equal(told(await register({})), '400 viewName is required')
  assert.equal(told(await register({ viewName: 'a b' })), '400 invalid identifier: a b')
  assert.equal(
    told(await register({ viewName: 'x"; drop table sales' })),
    '400 invalid identifier: x"; drop table sales',
  )
  assert.equal(told(await register({ viewName: 'by_id', schema: '1x' })), '400 invalid identifier: 1x')
  assert.equal(told(await register({ viewName: 'x'.repeat(64) })), `400 invalid identifier: ${'x'.repeat(64)}`)
  assert.equal(
    told(await register({ viewName: 'by_id', refreshMode: 'fast' })),
    "400 refreshMode must be 'standard' or 'concurrent'",
  )
  for (const viewName of ['plain', 'sales', 'nowhere']) {
    assert.equal(told(await register({ viewName })), '404 materialized view not found in database')
  }
  assert.equal(
    told(await register({ viewName: 'by_id', schema: '', refreshMode: null })),
    '409 materialized view already registered',
  )
  assert.equal(told(await refresh('x')), '400 invalid matview id format')
  assert.equal(told(await refresh(NOBODY)), '404 registration not found')
  const put = (id: string, json: object) => api.call(`PUT /api/admin/matviews/${id}`, { ...asAdmin, json })
  assert.equal(told(await put(NOBODY, { refreshMode: 'standard' })), '404 registration not found')
  assert.equal(told(await put(NOBODY, {})), "400 refreshMode must be 'standard' or 'concurrent'")
  assert.equal((await api.call('GET /api/admin/matviews')).status, 401)
})

test('concurrent refresh needs a unique index over all rows, and rows', async () => {
  const id = (await api.call('GET /api/admin/matviews', asAdmin)).body.items[0].id
  const put = await api.call(`PUT /api/admin/matviews/${id}`, { ...asAdmin, json: { refreshMode: 'concurrent' } })
  assert.deepEqual([put.status, put.body.refreshMode], [200, 'concurrent'])
  assert.equal((await refresh(id)).status, 200)
  assert.equal(
    told(await refresh(await registered('partly', 'concurrent'))),
    '409 concurrent refresh requires a unique index on the materialized view',
  )
  assert.equal(
    told(await refresh(await registered('empty', 'concurrent'))),
    '409 concurrent refresh requires a populated materialized view',
  )
})

test('a refresh that fails is recorded, and its reason is for the operator alone', async () => {
  const id = await registered('breaking')
  assert.equal((await refresh(id)).status, 200)
  await api.sql(`insert into public.sales values (30, 30)`)
  const { status, body } = await refresh(id)
  assert.deepEqual([status, body.message], [500, 'failed to refresh materialized view'])
  const { lastRefreshStatus, lastRefreshError, lastRefreshAt } = (
    await api.call(`GET /api/admin/matviews/${id}`, asAdmin)
  ).body
  assert.deepEqual([lastRefreshStatus, lastRefreshError], ['error', 'division by zero'])
  assert.ok(lastRefreshAt)
  await api.sql(`delete from public.sales where id = 30`)
  await api.sql(`drop materialized view public.breaking`)
  assert.equal(told(await refresh(id)), '404 materialized view no longer exists in database')
})

test('one refresh of a view at a time, over all processes; the second records nothing', async () => {
  const id = await registered('slow')
  const other = await startServer({ on: api })
  await api.sql(`insert into public.sales values (31, 1), (32, 1)`)
  const first = refresh(id)
  await eventually(async () => {
    const running = await api.sql(
      `select from pg_stat_activity where query like 'refresh %' and state = 'active' and datname = current_database()`,
    )
    assert.equal(running.length, 1)
  })
  for (const server of [api, other]) {
    const second = await server.call(`POST /api/admin/matviews/${id}/refresh`, asAdmin)
    assert.equal(told(second), '409 refresh already in progress')
  }
  assert.equal((await api.call(`GET /api/admin/matviews/${id}`, asAdmin)).body.lastRefreshAt, null)
  await api.sql(
    `select pg_cancel_backend(pid) from pg_stat_activity
      where query like 'refresh %' and pid <> pg_backend_pid() and datname = current_database()`,
  )
  assert.equal((await first).status, 500)
  await api.sql(`delete from public.sales where id in (31, 32)`)
  assert.equal((await refresh(id)).status, 200)
})

test('a job refreshes with or without registration, and says what went wrong', async () => {
  const run = async (payload: object, state: string) => {
    const json = { type: 'materialized_view_refresh', payload, maxAttempts: 1 }
    const { id } = (await api.call('POST /api/admin/jobs', { ...asAdmin, json })).body
    return eventually(async () => {
      const { body } = await api.call(`GET /api/admin/jobs/${id}`, asAdmin)
      assert.equal(body.state, state)
      return body
    })
  }
  assert.match((await run({ schema: 'reports', view_name: 'totals' }, 'completed')).log[0], /^refreshed in \d+ ms$/)
  await run({ view_name: 'by_id' }, 'completed')
  assert.equal((await run({ schema: 'public' }, 'failed')).lastError, 'view_name is required')
  assert.equal(
    (await run({ view_name: 'nowhere' }, 'failed')).lastError,
    'materialized view no longer exists in database',
  )
  const { items } = (await api.call('GET /api/admin/matviews', asAdmin)).body
  const byId = items.find((item: { viewName: string }) => item.viewName === 'by_id')
  assert.equal(byId.lastRefreshStatus, 'success')
})

test('views are refreshed with the job queue switched off', async () => {
  const off = await startServer({ on: api, config: { 'jobs.enabled': false } })
  const { items } = (await off.call('GET /api/admin/matviews', asAdmin)).body
  const id = items.find((item: { viewName: string }) => item.viewName === 'by_id').id
  assert.equal((await off.call(`POST /api/admin/matviews/${id}/refresh`, asAdmin)).status, 200)
})
