import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AS_INVOKER, withoutInvokerViews } from '../../../../test/kit/cluster.ts'
import { startServer } from '../../../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`
  create table people (id int primary key, owner uuid, salary text);
  insert into people select i, gen_random_uuid(), case when i <= 9000 then 'high' else 'low' end from generate_series(1, 12000) i;
  create function may_see(person uuid) returns boolean language plpgsql stable as $$ begin return person = svc.uid(); end $$;
  alter table people enable row level security;
  create policy own on people using (may_see(owner));
  create table badges (id int primary key, person_id int references people);
  insert into badges select i, i from generate_series(1, 12000) i;
  create view mine as select id, salary from people where may_see(owner);
  create view invoked ${AS_INVOKER} as select id, salary from people;
  create table posts (id int primary key, n int);
  insert into posts select i, i % 2 from generate_series(1, 12000) i;
  alter table posts enable row level security;
  create policy all_of_them on posts using (true);
  create table open (id int primary key);
  insert into open select generate_series(1, 12000);
  grant select on all tables in schema public to svc_authenticated;
  analyze;
`)
const { token: as } = await api.signUp('ana@x.test')
const total = async (table: string, filter = '', who = as) => {
  const query = new URLSearchParams({ total: 'estimate', perPage: '1', ...(filter && { filter }) })
  const { body } = await api.call(`GET /api/collections/${table}?${query}`, { as: who })
  return [body.totalItems, body.totalIsEstimate === true]
}

test('an estimate tells nothing of rows that policies or views hide', async () => {
  for (const [table, filter] of [
    ['people', "salary='high'"],
    ['people', ''],
    ['badges', "person.salary='high'"],
    ['mine', "salary='high'"],
    ['invoked', "salary='high'"],
  ] as const) {
    if (table === 'invoked' && withoutInvokerViews) continue
    assert.deepEqual(await total(table, filter), [0, false], `${table} ${filter}`)
  }
})

test('rows under policies are counted, up to ten thousand', async () => {
  assert.deepEqual(await total('posts', 'n=1'), [6000, false])
  assert.deepEqual(await total('posts'), [10_000, true])
  const page = await api.call('GET /api/collections/posts?total=estimate&perPage=100&cursor=', { as })
  assert.deepEqual([page.body.totalItems, page.body.totalPages, page.body.totalIsEstimate], [10_000, 100, true])
})

test('without policies, and for the operator, the planner estimates', async () => {
  assert.deepEqual(await total('open'), [12_000, true])
  assert.deepEqual(await total('badges'), [12_000, true])
  assert.deepEqual(await total('people', '', 'admin'), [12_000, true])
})
