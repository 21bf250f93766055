import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const people: Record<string, string> = { admin: await api.adminToken() }
const ids: Record<string, string> = {}
for (const [name, role] of [
  ['olga', 'owner'],
  ['oleg', 'owner'],
  ['otto', 'operator'],
  ['vera', 'viewer'],
  ['vito', 'viewer'],
] as const) {
  const person = { email: `${name}@x.test`, password: 'long enough password' }
  ids[name] = (await api.call('POST /api/admin/admins', { as: 'admin', json: { ...person, role } })).body.id
  people[name] = (await api.call('POST /api/admin/auth', { json: person })).body.token
}
const call = (line: string, who: string, json?: object) =>
  api.call(line as 'GET /', { as: people[who] ?? '', ...(json && { json }) })
const names = async (who: string, path = 'queries') => {
  const { status, body } = await call(`GET /api/admin/dashboard/${path}`, who)
  assert.equal(status, 200)
  return body.items.map(({ name }: { name: string }) => name)
}

test('queries are shared by administrators, those of viewers are their own', async () => {
  const made = await call('POST /api/admin/dashboard/queries', 'olga', { name: ' Totals ', query: 'select 1' })
  assert.equal(made.status, 201)
  assert.deepEqual(
    [made.body.name, made.body.query, made.body.author, made.body.role, made.body.own],
    ['Totals', 'select 1', 'olga@x.test', 'owner', false],
  )
  const own = await call('POST /api/admin/dashboard/queries', 'vera', { name: 'mine', query: 'select 2' })
  assert.equal(own.body.own, true)
  assert.deepEqual(await names('vera'), ['mine', 'Totals'])
  for (const other of ['olga', 'vito', 'admin']) assert.deepEqual(await names(other), ['Totals'])
  const line = `/api/admin/dashboard/queries/${own.body.id}`
  assert.equal((await call(`PATCH ${line}`, 'olga', { name: 'x' })).status, 404)
  assert.equal((await call(`DELETE ${line}`, 'vito')).status, 404)
  assert.equal((await call(`PATCH /api/admin/dashboard/queries/${made.body.id}`, 'vera', { name: 'x' })).status, 403)
  assert.equal((await call(`PATCH ${line}`, 'vera', { query: 'select 3' })).body.query, 'select 3')
  assert.equal((await call(`DELETE ${line}`, 'vera')).status, 204)
  assert.equal((await call(`DELETE ${line}`, 'vera')).status, 404)
})

test('a query runs with the lesser role of its last author and its runner, and names both', async () => {
  const { id } = (await call('POST /api/admin/dashboard/queries', 'olga', { name: 'q', query: 'select 41 + 1 as n' }))
    .body
  const run = (who: string) => call('POST /api/admin/sql', who, { saved: id })
  const { body } = await run('admin')
  assert.deepEqual(body.rows, [[42]])
  assert.deepEqual(body.saved, { id, name: 'q', author: 'olga@x.test', runner: 'admin', role: 'owner' })
  const lesser = await call(`PATCH /api/admin/dashboard/queries/${id}`, 'otto', { query: 'delete from svc.users' })
  assert.equal(lesser.body.role, 'operator')
  assert.equal((await run('admin')).status, 403, 'what an operator wrote never runs as an owner')
  await call(`PATCH /api/admin/dashboard/queries/${id}`, 'olga', { query: 'select 1' })
  assert.equal((await run('admin')).body.saved.role, 'owner')
  await call(`PATCH /api/admin/admins/${ids['olga']}`, 'admin', { role: 'viewer' })
  assert.equal((await run('admin')).body.saved.role, 'viewer', 'an author who is less now')
  assert.equal((await call('POST /api/admin/sql', 'admin', { saved: crypto.randomUUID() })).status, 404)
  assert.equal((await call('POST /api/admin/sql', 'admin', { saved: id, query: 'select 1' })).status, 400)
})

test('views keep what a grid keeps', async () => {
  const view = { name: 'open orders', table: 'orders', state: { filter: "state='open'", sort: '-id', __proto__x: [1] } }
  const { status, body } = await call('POST /api/admin/dashboard/views', 'otto', view)
  assert.equal(status, 201)
  assert.deepEqual(body.state, view.state)
  assert.deepEqual(await names('vera', 'views'), ['open orders'])
  const line = `/api/admin/dashboard/views/${body.id}`
  assert.deepEqual((await call(`PATCH ${line}`, 'otto', { state: {} })).body.state, {})
  assert.equal((await call(`DELETE ${line}`, 'otto')).status, 204)
})

test('nonsense is refused', async () => {
  for (const json of [
    {},
    { name: '', query: 'x' },
    { name: 'a\nb', query: 'x' },
    { name: 'x'.repeat(201), query: 'x' },
    { name: 'x', query: 'y'.repeat(100_001) },
    { name: 'x', query: 'a\0b' },
    { name: 'x', query: 1 },
  ]) {
    assert.equal((await call('POST /api/admin/dashboard/queries', 'admin', json)).status, 400)
  }
  assert.equal(
    (await call('POST /api/admin/dashboard/queries', 'admin', { name: 'x', query: String.raw`'\u0000'` })).status,
    201,
  )
  assert.equal((await api.call('GET /api/admin/dashboard/queries')).status, 401)
})
