import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../../test/kit/kit.ts'

const wide = Array.from({ length: 1_600 }, (_, i) => `c${i} int2`).join(', ')

const ZOO = `
  create table plain (id int primary key, v text);
  create table "odd ""name"".%s $1 \\ é 日本" (id int primary key, "col""umn ' x" text);
  create table wide (${wide});
  create table no_columns ();
  create unlogged table unlogged_one (id int primary key);
  create type shape as enum ('a', 'b');
  create domain positive as int check (value > 0);
  create type composite as (a positive, b shape[]);
  create table typed of composite;
  create table arrays (id int primary key, m int[][], c composite[], r int4range, mr int4multirange, x xml, t tsvector, b bit varying(3), o oid, l pg_lsn);
  create table parent (id int primary key) partition by range (id);
  create table child partition of parent for values from (0) to (10) partition by list (id);
  create table grandchild partition of child default;
  create table heir () inherits (plain);
  create view fine as select * from plain;
  create view raising as select 1 / 0 as x;
  create view recursive_one as with recursive r(n) as (select 1 union all select n + 1 from r where n < 3) select * from r;
  create materialized view empty_one as select * from plain with no data;
  create index invalid_one on plain (v);
  update pg_index set indisvalid = false where indexrelid = 'invalid_one'::regclass;
  create index by_expression on plain (lower(v), (id + 1)) where v is not null;
  create sequence seq;
  create foreign data wrapper no_handler;
  create server nowhere foreign data wrapper no_handler;
  create foreign table orphan (id int) server nowhere;
  create function raises() returns int language plpgsql as $$ begin raise exception 'no'; end $$;
  create function broken() returns int language sql return 1;
  create table lies (id int primary key, g int generated always as (id * 2) stored, i int generated always as identity);
  create rule nothing as on insert to plain do instead nothing;
  create table circular (id int primary key, other int references circular);
`

test('a zoo of objects neither stops a running server nor keeps one from starting', async () => {
  const api = await startServer()
  await api.sql(ZOO)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/circular')).status, 200))
  const second = await startServer({ on: api })
  for (const server of [api, second]) {
    for (const name of ['plain', 'wide', 'typed', 'arrays', 'parent', 'grandchild', 'fine', 'lies']) {
      assert.equal((await server.call(`GET /api/collections/${name}`)).status, 200, name)
    }
    const { status, body } = await server.call('GET /api/schema')
    assert.equal(status, 200)
    assert.equal(body.tables['public.orphan'].kind, 'foreign_table')
    for (const name of ['orphan', 'raising', 'empty_one', 'no_columns']) {
      const answer = await server.call(`GET /api/collections/${name}`)
      assert.ok(answer.status >= 400 && answer.status < 600, `${name}: ${answer.status}`)
      assert.equal((await server.call('GET /api/collections/plain')).status, 200)
    }
  }
})

test('an object that PostgreSQL cannot describe is left out and named, the others are served', async () => {
  const api = await startServer()
  await api.sql(`create table fine (id int primary key); create table good (id int primary key)`)
  await api.sql(`
    create function fine_too() returns int language sql as 'select 1';
    create function odd(a int) returns int language sql as 'select 1'`)
  // As after an extension was removed from the catalogue by hand: the type of an argument is missing.
  await api.sql(`update pg_proc set proargtypes = '999999' where proname = 'odd'`)
  await api.sql(`comment on table fine is 'touched'`)
  await eventually(async () => {
    const { body } = await api.call('GET /api/schema')
    assert.equal(body.tables['public.fine'].comment, 'touched')
  })
  assert.equal((await api.call('GET /api/collections/good')).status, 200)
  assert.equal((await api.call('POST /api/rpc/fine_too', { json: {} })).body, 1)
  const second = await startServer({ on: api })
  for (const server of [api, second]) {
    assert.equal((await server.call('POST /api/rpc/odd', { json: { a: 1 } })).status, 404)
    const { body } = await server.call('GET /api/admin/status', { as: 'admin' })
    assert.match(
      body.warnings.join('\n'),
      /public\.odd is left out, because PostgreSQL cannot describe it: cache lookup failed/,
    )
  }
  await api.sql(`update pg_proc set proargtypes = '23' where proname = 'odd'; comment on table fine is 'again'`)
  await eventually(async () => assert.equal((await api.call('POST /api/rpc/odd', { json: { a: 1 } })).body, 1))
})

test('partitions and heirs of a table with row level security are exposed only with their own', async () => {
  const api = await startServer()
  await api.sql(`
    create table parent (id int, owner text) partition by range (id);
    alter table parent enable row level security;
    create policy own on parent using (owner = current_setting('svc.user_id', true));
    create table low partition of parent for values from (0) to (10);
    create table high partition of parent for values from (10) to (100) partition by list (id);
    create table higher partition of high default;
    create table guarded partition of parent for values from (100) to (1000);
    alter table guarded enable row level security;
    create table old_style (id int, owner text);
    alter table old_style enable row level security;
    create table heir () inherits (old_style);
    insert into parent values (1, 'somebody'), (11, 'somebody');
    insert into heir values (1, 'somebody');
  `)
  await eventually(async () => {
    const { body } = await api.call('GET /api/collections/parent')
    assert.deepEqual(body.items, [])
  })
  for (const name of ['low', 'high', 'higher', 'heir', 'public.low']) {
    for (const method of ['GET', 'POST'] as const) {
      const { status, body } = await api.call(
        `${method} /api/collections/${name}`,
        method === 'POST' ? { json: { id: 2 } } : {},
      )
      assert.deepEqual([status, body.message], [404, `collection not found: ${name}`])
    }
  }
  assert.deepEqual((await api.call('GET /api/collections/guarded')).body.items, [])
  const { body } = await api.call('GET /api/admin/status', { as: 'admin' })
  const sentences = (body.warnings as string[]).filter((warning) => warning.includes('not exposed'))
  assert.equal(sentences.length, 2, sentences.join('\n'))
  assert.match(sentences.join('\n'), /public\.high, public\.higher, public\.low are not exposed.*public\.parent/)
  assert.match(sentences.join('\n'), /public\.heir is not exposed/)
})
