import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { withoutVirtualColumns } from '../../../test/kit/cluster.ts'
import { type EventReader, listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
let token: string
before(async () => {
  api = await startServer()
  await api.sql(`
    create table people (id int primary key, name text, ssn text);
    create table marks (id serial primary key, n int);
    revoke select on people from svc_anon, svc_authenticated;
    grant select (id, name) on people to svc_authenticated;
    select svc.watch('people');
    create table notes (id int primary key, owner text, body text);
    alter table notes enable row level security;
    create policy mine on notes using (owner = current_setting('svc.user_id', true));
    select svc.watch('notes');
  `)
  token = (await api.signUp('ana@x.test')).token
  await eventually(async () => assert.equal((await api.call('GET /api/collections/marks', { as: token })).status, 200))
})

const listen = (lastEventId = ''): Promise<EventReader> => listenTo(api.url, { token, query: { lastEventId } })
/** What a stream is told from a position on; the mark is the end of it. */
async function toldSince(position: string): Promise<{ table: string; record: Record<string, unknown> }[]> {
  const { body } = await api.call('POST /api/collections/marks', { as: 'admin', json: { n: 1 } })
  const stream = await listen(position)
  await stream.until(({ data }) => data?.table === 'marks' && data.record.id === body.id)
  stream.close()
  return stream.changes().filter(({ table }) => table !== 'marks')
}
const now = async (): Promise<string> => {
  const stream = await listen()
  stream.close()
  return stream.lastId()
}
/** The server does not notice changes of the schema by itself any more. */
const blind = (): Promise<unknown> =>
  api.sql(`do $$ declare t text; begin
    for t in select evtname from pg_event_trigger where evtname like 'svc%' loop execute format('alter event trigger %I disable', t); end loop;
  end $$`)
const sighted = (): Promise<unknown> =>
  api.sql(`do $$ declare t text; begin
    for t in select evtname from pg_event_trigger where evtname like 'svc%' loop execute format('alter event trigger %I enable', t); end loop;
  end $$`)

test('a column that is not readable stays so under its next name, and after it is dropped', async () => {
  const start = await now()
  await api.sql(`insert into people values (1, 'Ana', '123-45')`)
  assert.deepEqual(await toldSince(start), [{ action: 'create', table: 'people', record: { id: 1, name: 'Ana' } }])
  await api.sql('alter table people rename ssn to tax_id')
  assert.deepEqual(await toldSince(start), [{ action: 'create', table: 'people', record: { id: 1, name: 'Ana' } }])
  await api.sql('alter table people drop tax_id')
  assert.deepEqual(await toldSince(start), [{ action: 'create', table: 'people', record: { id: 1, name: 'Ana' } }])
  // A readable column of that name, made later, is another column.
  await api.sql('alter table people add ssn text; grant select (ssn) on people to svc_authenticated')
  assert.deepEqual(await toldSince(start), [{ action: 'create', table: 'people', record: { id: 1, name: 'Ana' } }])
  // And a readable one is told under the name it has now.
  await api.sql('alter table people rename name to full_name')
  assert.deepEqual(await toldSince(start), [{ action: 'create', table: 'people', record: { id: 1, full_name: 'Ana' } }])
  await api.sql('alter table people rename full_name to name; alter table people drop ssn')
})

test('of an entry whose columns are a guess, as an older version left it, what is known alone is told', async () => {
  const start = await now()
  await api.sql(`
    insert into svc.change_shapes (id, table_oid, schema_name, table_name, columns, key_columns)
    select 77, 'people'::regclass, d.schema_name, d.table_name, d.columns, d.key_columns from svc.describe_table('people'::regclass) d;
    insert into svc.change_log (shape, table_oid, action, key, record)
    values (77, 'people'::regclass, 'c', '9', '{"id": 9, "name": "Eve", "ssn": "567-89"}')`)
  assert.deepEqual(await toldSince(start), [{ action: 'create', table: 'people', record: { id: 9, name: 'Eve' } }])
})

test('a column that is added without a grant, and one whose grant is taken, are not told for a moment either', async () => {
  const start = await now()
  await blind()
  await api.sql(`alter table people add secret text; insert into people (id, name, secret) values (2, 'Bo', 'hidden')`)
  assert.deepEqual(await toldSince(start), [{ action: 'create', table: 'people', record: { id: 2, name: 'Bo' } }])
  await api.sql('revoke select (name) on people from svc_authenticated')
  assert.deepEqual(await toldSince(start), [{ action: 'create', table: 'people', record: { id: 2 } }])
  await sighted()
})

test('old images are judged by the column that the policy reads now', async () => {
  const { user, token: his } = await api.signUp('bo@x.test')
  const start = await now()
  await api.sql(`insert into notes values (1, '${user.id}', 'of Bo'); delete from notes`)
  await api.sql(`
    drop policy mine on notes; alter table notes rename owner to author; alter table notes rename body to owner;
    create policy mine on notes using (author = current_setting('svc.user_id', true))`)
  const { body } = await api.call('POST /api/collections/marks', { as: 'admin', json: { n: 1 } })
  const stream = await listenTo(api.url, { token: his, query: { lastEventId: start } })
  await stream.until(({ data }) => data?.table === 'marks' && data.record.id === body.id)
  stream.close()
  assert.deepEqual(
    stream.changes().filter(({ table }) => table === 'notes'),
    [
      { action: 'create', table: 'notes', record: { id: 1, author: user.id, owner: 'of Bo' } },
      { action: 'delete', table: 'notes', record: { id: 1 } },
    ],
  )
})

test('two tables that swap their names keep their rows, before the server has noticed too', async () => {
  await api.sql(`
    create table open (id int primary key, v text); create table closed (id int primary key, v text);
    revoke all on closed from svc_anon, svc_authenticated;
    select svc.watch('open'), svc.watch('closed')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/open', { as: token })).status, 200))
  const start = await now()
  await api.sql(`insert into open values (1, 'everyone''s'); insert into closed values (1, 'hidden')`)
  await blind()
  await api.sql('alter table open rename to x; alter table closed rename to open; alter table x rename to closed')
  const told = [{ action: 'create', table: 'closed', record: { id: 1, v: "everyone's" } }]
  assert.deepEqual(await toldSince(start), told)
  await sighted()
  await api.sql('drop table open; drop table closed; create table open (id int primary key, v text)')
  assert.deepEqual(await toldSince(start), [])
})

test('a table that was made again is heard at once by every stream, however many look at the same time', async () => {
  await api.sql('create table again (id int primary key)')
  await eventually(async () => assert.equal((await api.call('GET /api/collections/again', { as: token })).status, 200))
  const start = await now()
  await blind()
  const streams = await Promise.all(Array.from({ length: 8 }, () => listen(start)))
  await api.sql(
    `drop table again; create table again (id int primary key); select svc.watch('again'); insert into again values (1)`,
  )
  const { body } = await api.call('POST /api/collections/marks', { as: 'admin', json: { n: 1 } })
  const late = await Promise.all(Array.from({ length: 8 }, () => listen(start)))
  for (const stream of [...streams, ...late]) {
    await stream.until(({ data }) => data?.table === 'marks' && data.record.id === body.id)
    assert.equal(stream.changes().filter(({ table }) => table === 'again').length, 1)
    stream.close()
  }
  await sighted()
})

test('a table that is dropped while the policies are asked ends no stream', async () => {
  await api.sql(`
    create table held (id int primary key); create table dropped (id int primary key);
    create sequence may_go_on;
    create function held_up() returns boolean language plpgsql security definer as $$ begin
      while not (select is_called from may_go_on) loop perform pg_sleep(0.01); end loop;
      return true;
    end $$;
    alter table held enable row level security; alter table dropped enable row level security;
    create policy slow on held using (held_up()); create policy positive on dropped using (id > 0);
    select svc.watch('held'), svc.watch('dropped')`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/dropped', { as: token })).status, 200),
  )
  const start = await now()
  await api.sql('insert into held values (1); insert into dropped values (1)')
  const { body } = await api.call('POST /api/collections/marks', { as: 'admin', json: { n: 1 } })
  const stream = await listen(start)
  const asking = `select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`
  await eventually(async () => assert.notEqual((await api.sql(asking)).length, 0))
  await api.sql('drop table dropped')
  await api.sql(`select nextval('may_go_on')`)
  await stream.until(({ data, event }) => event === 'error' || (data?.table === 'marks' && data.record.id === body.id))
  stream.close()
  assert.deepEqual(
    stream.events
      .map(({ event, data }) => [event, data?.error ?? data?.table])
      .filter(([, told]) => told !== undefined),
    [
      ['message', 'held'],
      ['message', 'marks'],
    ],
  )
})

test('a row that a policy over a virtual column hides is not told, and a filter reads the column', {
  skip: withoutVirtualColumns,
}, async () => {
  await api.sql(`
    create table cards (id int primary key, body text, hidden bool generated always as (body like 'secret%'));
    alter table cards enable row level security;
    create policy readable on cards for select using (hidden is not true);
    select svc.watch('cards')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/cards')).status, 200))
  const start = await now()
  const filtered = await listenTo(api.url, { token, query: { tables: 'cards', filter: 'hidden=false' } })
  await api.sql(
    `insert into cards values (1, 'secret'), (2, 'secret'), (3, 'open'); delete from cards where id in (1, 3)`,
  )
  await api.sql(`update cards set body = 'told' where id = 2`)
  const told = (action: string, record: object) => ({ action, table: 'cards', record })
  const expected = [
    told('create', { id: 3, body: 'open', hidden: false }),
    told('delete', { id: 3 }),
    told('update', { id: 2, body: 'told', hidden: false }),
  ]
  assert.deepEqual(await toldSince(start), expected)
  await eventually(() => assert.equal(filtered.changes().length, 3))
  assert.deepEqual(filtered.changes(), expected)
  filtered.close()
  // Images that were logged before the server computed such columns.
  await api.sql(`update svc.change_log set record = (record::jsonb || '{"hidden": null}')::json,
    old_record = (old_record::jsonb || '{"hidden": null}')::json where table_oid = 'cards'::regclass`)
  assert.deepEqual(
    (await toldSince(start)).map(({ record }) => record['id']),
    [3, 3, 2],
  )
})
