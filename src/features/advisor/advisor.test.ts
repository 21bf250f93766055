import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../test/kit/kit.ts'

type Item = { kind: string; table: string; what: string; sql: string; gain?: unknown }

const api = await startServer()
const clean = async (): Promise<Item[]> => {
  const { status, body, text } = await api.call('GET /api/admin/advice', { as: 'admin' })
  assert.equal(status, 200, text)
  return body.items
}

const OWN = 'owner uuid not null default svc.uid()'
const secure = (table: string, using = 'owner = (select svc.uid())') =>
  `alter table ${table} enable row level security; create policy own on ${table} using (${using});`

test('a healthy database gets no advice', async () => {
  await api.sql(`
    create table healthy (id bigint generated always as identity primary key, ${OWN}, title text);
    create index on healthy (owner); ${secure('healthy')}
    insert into healthy (owner, title) select gen_random_uuid(), 't' || i from generate_series(1, 3000) i;
    create table children (id bigint generated always as identity primary key, parent bigint references healthy, ${OWN});
    create index on children (parent); create index on children (owner); ${secure('children')}
    analyze;`)
  assert.deepEqual(await clean(), [])
})

test('planted faults are named, and nothing else', async () => {
  await api.sql(`
    -- 1-3 tables open to visitors
    create table open_a (id int primary key); create table open_b (id int primary key); create table open_c (id int primary key);
    -- 4-6 double indexes
    create table doubles (id int primary key, a int, b int, ${OWN}); create index on doubles (owner); ${secure('doubles')}
    create index da on doubles (a); create index da_again on doubles (a);
    create index dab on doubles (a, b); create index dab_again on doubles (a, b);
    create index di_again on doubles (id);
    -- 7-8 unused indexes
    create table writes (id int primary key, a int, b int, ${OWN}); create index on writes (owner); ${secure('writes')}
    create index unused_a on writes (a); create index unused_b on writes (b);
    -- 9-10 policies that call a function for every row
    create function is_staff() returns boolean language plpgsql stable as 'begin return false; end';
    create table staffed (id int primary key, ${OWN}); alter table staffed enable row level security;
    create policy staff on staffed using (is_staff()); create policy staff_writes on staffed for insert with check (is_staff());
    -- 11-12 policies without an index
    create table mine (id int primary key, ${OWN}); ${secure('mine')} insert into mine select i, gen_random_uuid() from generate_series(1, 2000) i;
    create table yours (id int primary key, who uuid); ${secure('yours', 'who = svc.uid()')} insert into yours select i, gen_random_uuid() from generate_series(1, 2000) i;
    -- 13-14 expands without an index
    create table parents (id int primary key, ${OWN}); create index on parents (owner); ${secure('parents')} insert into parents select 1, gen_random_uuid();
    create table kids (id int primary key, parent int references parents, other int references parents, ${OWN}); create index on kids (owner); ${secure('kids')}
    insert into kids select i, 1, 1, gen_random_uuid() from generate_series(1, 2000) i;
    -- 15-16 sequences near their end
    create table numbered (id serial primary key, small smallserial, ${OWN}); create index on numbered (owner); ${secure('numbered')}
    select setval('numbered_id_seq', 2000000000); select setval('numbered_small_seq', 30000);
    -- 17 bloat
    create table bloated (id int primary key, t text, ${OWN}) with (autovacuum_enabled = false); create index on bloated (owner); ${secure('bloated')}
    insert into bloated select i, repeat('x', 500), gen_random_uuid() from generate_series(1, 60000) i; delete from bloated where id > 5000;
    -- 18 one more policy without an index, of names with capitals
    create table "Odd" (id int primary key, "Who" uuid); ${secure('"Odd"', '"Who" = svc.uid()')} insert into "Odd" select i, gen_random_uuid() from generate_series(1, 2000) i;
    -- 19-20 missing indexes, once they are asked for
    create table people (id int primary key, email text, age int, ${OWN}); alter table people enable row level security; create policy all_of_it on people using (true);
    insert into people select i, 'p' || i || '@x.test', i % 50, gen_random_uuid() from generate_series(1, 20000) i;
    create table events (id int primary key, code uuid, ${OWN}); alter table events enable row level security; create policy all_of_it on events using (true);
    insert into events select i, gen_random_uuid(), gen_random_uuid() from generate_series(1, 20000) i;
    analyze;`)
  // Ten thousand writes make an index that was never read a burden.
  await api.sql(`insert into writes select i, i, i, gen_random_uuid() from generate_series(1, 11000) i; analyze writes`)
  // PostgreSQL 14 counts them a moment later.
  await eventually(async () =>
    assert.deepEqual(await api.sql(`select n_tup_ins from pg_stat_user_tables where relname = 'writes'`), [
      { n_tup_ins: '11000' },
    ]),
  )
  const ana = await api.signUp('ana@x.test')
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/events', { as: ana.token })).status, 200),
  )
  const ask = async (path: string): Promise<void> => {
    for (let i = 0; i < 110; i++)
      assert.equal(
        (await api.call(`GET /api/collections/${path.replace('#', String(i))}` as 'GET /x', { as: ana.token })).status,
        200,
      )
  }
  await ask(`people?skipTotal=true&filter=${encodeURIComponent(`email = 'p#@x.test'`)}`)
  await ask(`events?skipTotal=true&filter=${encodeURIComponent(`code = '00000000-0000-4000-8000-000000000001'`)}`)
  const expected = [
    ['bloat', 'bloated'],
    ['double_index', 'doubles'],
    ['double_index', 'doubles'],
    ['double_index', 'doubles'],
    ['expand_index', 'kids'],
    ['expand_index', 'kids'],
    ['missing_index', 'events'],
    ['missing_index', 'people'],
    ['open_table', 'open_a'],
    ['open_table', 'open_b'],
    ['open_table', 'open_c'],
    ['policy_function', 'staffed'],
    ['policy_function', 'staffed'],
    ['policy_index', 'Odd'],
    ['policy_index', 'mine'],
    ['policy_index', 'yours'],
    ['sequence', 'numbered'],
    ['sequence', 'numbered'],
    ['unused_index', 'writes'],
    ['unused_index', 'writes'],
  ]
  const found = await eventually(async () => {
    const items = await clean()
    assert.deepEqual(items.map(({ kind, table }) => [kind, table]).sort(), expected, JSON.stringify(items, null, 1))
    return items
  })
  await applied(found)
})

/** Applying the index advice makes the named statements faster. */
async function applied(items: readonly Item[]): Promise<void> {
  // The least of several, as PostgreSQL itself measures it.
  const cost = async (): Promise<number> => {
    const times: number[] = []
    for (let i = 0; i < 7; i++) {
      const [row] = await api.sql(`explain (analyze, format json) select * from people where email = 'p7@x.test'`)
      const [{ Plan }] = JSON.parse(row['QUERY PLAN'])
      times.push(Plan['Actual Total Time'])
    }
    return Math.min(...times)
  }
  const before = await cost()
  for (const { sql } of items) await api.sql(sql)
  await api.sql('analyze')
  const after = await cost()
  assert.ok(after < before, `${before} → ${after}`)
  // Everything that was advised is mended by it, and nothing new is wrong.
  await eventually(async () => assert.deepEqual(await clean(), []))
}

test('shapes are kept without values', async () => {
  await api.stop()
  const again = await startServer({ on: api })
  const rows = await again.sql('select statement, runs from svc.shapes where runs >= 100')
  assert.ok(rows.length >= 2)
  assert.ok(rows.every(({ statement }: { statement: string }) => !statement.includes('@x.test')))
})
