import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'api.statement_timeout': 1, 'database.max_conns': 4 } })
await api.sql(`
  create sequence begun;
  create function pause(seconds float8) returns int language plpgsql security definer as $$
    begin perform nextval('public.begun'); perform pg_sleep(seconds); return 1; end $$;
  create view slow as select pause(0.4) as n;
  create view broken as select 1 / (pause(0) - 1) as n;
  create table items (id int primary key, n int);
  create function pause_row() returns trigger language plpgsql as $$ begin perform pause(0.4); return new; end $$;
  create trigger pause before insert on items for each row execute function pause_row();
`)
const ask = (query: string) => api.call('POST /api/graphql', { json: { query } })
const fields = (n: number, field: (i: number) => string) => Array.from({ length: n }, (_, i) => field(i)).join(' ')
const begun = async (work: () => Promise<unknown>): Promise<number> => {
  await api.sql(`select setval('begun', 1, false)`)
  await work()
  const [row] = await api.sql('select case when is_called then last_value else 0 end as n from begun')
  return Number(row.n)
}

test('the root fields of a query share the time of one request', async () => {
  const count = await begun(async () => {
    const { body } = await ask(`{ ${fields(20, (i) => `f${i}: slow { n }`)} }`)
    assert.equal(body.data.f19, null)
    assert.ok(body.errors.every(({ extensions }: { extensions: { code: number } }) => extensions.code === 504))
  })
  assert.ok(count <= 3, `${count} of 20 fields of 0.4 s began within a second`)
})

test('what is flown again after a failure takes of the same time', async () => {
  const count = await begun(async () => {
    const { body } = await ask(`{ bad: broken { n } ${fields(20, (i) => `f${i}: slow { n }`)} }`)
    const of = (key: string) => body.errors.find(({ path }: { path: string[] }) => path[0] === key)?.extensions.error
    assert.deepEqual([of('bad'), of('f19')], ['division_by_zero', 'statement_timeout'])
  })
  assert.ok(count <= 6, `${count} fields began`)
})

test('the fields of a mutation share the time of one request, and none of them is kept', async () => {
  const count = await begun(async () => {
    const { body } = await ask(
      `mutation { ${fields(10, (i) => `f${i}: insert_items(objects: [{id: ${i}}]) { affected_rows }`)} }`,
    )
    assert.equal(body.errors[0].extensions.error, 'statement_timeout')
  })
  // The first may begin twice: on a connection of the reserve it is cut after 200 ms.
  assert.ok(count <= 4, `${count} of 10 rows of 0.4 s began within a second`)
  assert.deepEqual(await api.sql('select from items'), [])
})

test('the operations of a batch share the time of one request', async () => {
  const count = await begun(async () => {
    // Different columns, so that each operation is a statement.
    const operations = Array.from({ length: 10 }, (_, id) => ({
      method: 'create',
      body: id % 2 === 0 ? { id } : { id, n: 1 },
    }))
    const { body } = await api.call('POST /api/collections/items/batch', { json: { operations } })
    assert.equal(body.error, 'statement_timeout')
  })
  assert.ok(count <= 4, `${count} of 10 operations of 0.4 s began within a second`)
})
