import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { AS_INVOKER } from '../../../test/kit/cluster.ts'
import { type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table people (id int primary key, name text, age int);
    insert into people values (1, 'ana', 30), (2, 'bo', 10);
    create view adults ${AS_INVOKER} as select id, name, age from people where age >= 18 with check option;
    create view ages as select age, count(*) as n from people group by age;
    create materialized view frozen as select * from people;
    grant select on frozen to svc_anon;
  `)
})

test('views and materialized views are read like tables', async () => {
  assert.deepEqual((await api.call("GET /api/collections/adults?filter=name='ana'")).body, {
    items: [{ id: 1, name: 'ana', age: 30 }],
    page: 1,
    perPage: 20,
    totalItems: 1,
    totalPages: 1,
  })
  assert.equal((await api.call('GET /api/collections/ages?sort=-age')).body.items[0].age, 30)
  assert.equal((await api.call('GET /api/collections/frozen')).body.totalItems, 2)
})

test('an auto-updatable view takes new rows and keeps its check option', async () => {
  const made = await api.call('POST /api/collections/adults', { json: { id: 3, name: 'cy', age: 40 } })
  assert.deepEqual([made.status, made.body], [201, { id: 3, name: 'cy', age: 40 }])
  const child = await api.call('POST /api/collections/adults', { json: { id: 4, name: 'di', age: 4 } })
  assert.equal(child.status, 400)
  const patch = await api.call('PATCH /api/collections/adults/3', { json: { age: 41 } })
  assert.deepEqual(patch.body, { code: 400, error: 'no_primary_key', message: 'table has no primary key' })
  const batch = await api.call('POST /api/collections/adults/batch', {
    json: { operations: [{ method: 'create', body: { id: 5, name: 'ed', age: 50 } }] },
  })
  assert.equal(batch.status, 200)
})

test('other views refuse writes', async () => {
  for (const name of ['ages', 'frozen'] as const) {
    const path = `/api/collections/${name}` as const
    const answers = [
      await api.call(`POST ${path}`, { json: { age: 1, id: 1 } }),
      await api.call(`PATCH ${path}/1`, { json: { age: 1, id: 1 } }),
      await api.call(`DELETE ${path}/1`),
      await api.call(`POST ${path}/batch`, { json: { operations: [{ method: 'create', body: { age: 1 } }] } }),
    ]
    for (const { status, body } of answers) {
      assert.deepEqual(
        [status, body],
        [405, { code: 405, error: 'view_not_writable', message: 'write operations not allowed on view' }],
      )
    }
  }
})
