import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { listenTo } from '../../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../../../test/kit/kit.ts'
import { liveRows } from '../../../../test/kit/live-list.ts'
import { type Talker, talkTo } from '../../../../test/kit/web-socket.ts'

let api: InProcessServer
let [ana, bo] = [] as unknown as [SignedUp, SignedUp]
before(async () => {
  api = await startServer()
  ana = await api.signUp('ana@x.test')
  bo = await api.signUp('bo@x.test')
  await api.sql(`create table people (id int primary key, name text);
    create table notes (id int primary key, owner uuid default svc.uid(), title text, rank int default 0, author_id int references people);
    create table teams (id int primary key, name text);
    create table memberships (team_id int references teams, person uuid, primary key (team_id, person));
    create table tasks (id int primary key, team_id int references teams, title text, done boolean default false);
    create table pairs (a int, b int, body text, primary key (a, b));
    create table loose (body text);
    create view titles as select title from notes;
    alter table notes enable row level security;
    create policy own on notes for all to svc_authenticated using (owner = svc.uid());
    alter table tasks enable row level security;
    create policy mine on tasks for all to svc_authenticated using (
      exists (select from memberships m where m.team_id = tasks.team_id and m.person = svc.uid()));
    grant all on people, notes, teams, memberships, tasks, pairs, loose, titles to svc_authenticated;
    insert into people values (1, 'Ada'), (2, 'Bea');
    insert into teams values (1, 'one'), (2, 'two');
    select svc.watch('notes'), svc.watch('memberships'), svc.watch('people'), svc.watch('tasks')`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/titles', { as: ana.token })).status, 200),
  )
})

const talk = ({ token }: { token: string }): Promise<Talker> => talkTo(api.url, { token })
const live = (talker: Talker, collection: string, query: object = {}, more: object = {}) =>
  talker.ask({ type: 'live', collection, query, ...more })
// biome-ignore lint/suspicious/noExplicitAny: tests look into rows freely
const until = (talker: Talker, number: number, fits: (items: any[]) => void, keyOf?: (row: any) => unknown) =>
  eventually(() => fits(liveRows(talker, number, keyOf).items))
const messages = (talker: Talker, number: number) =>
  talker.heard.filter(({ live, type }) => live === number && type !== 'reply')
const write = async (as: SignedUp, table: string, json: object) =>
  assert.equal((await api.call(`POST /api/collections/${table}`, { as: as.token, json })).status, 201)

test('a live list is the rows of now, then what changes: made, changed, moved and gone, in one diff per commit', async () => {
  const talker = await talk(ana)
  for (const id of [1, 2, 3]) await write(ana, 'notes', { id, title: `n${id}`, rank: id })
  const { status, live: number } = await live(talker, 'notes', { sort: '-rank', perPage: 3, fields: 'id,title' })
  assert.deepEqual([status, number], ['ok', 1])
  const rows = await talker.until(({ type }) => type === 'rows')
  assert.match(rows.position, /^\d+-\d+$/)
  assert.deepEqual(rows, {
    type: 'rows',
    live: 1,
    position: rows.position,
    items: [3, 2, 1].map((id) => ({ id, title: `n${id}` })),
  })
  // By SQL, three rows in one commit: two move, one enters, one leaves the page.
  await api.sql(`begin; update notes set rank = 9, title = 'first' where id = 1;
    insert into notes (id, owner, title, rank) values (4, '${ana.user.id}', 'n4', 5); commit`)
  const diff = await talker.until(({ type }) => type === 'diff')
  assert.deepEqual(diff.changes, [
    { key: 2, gone: true },
    { key: 1, at: 0, row: { id: 1, title: 'first' } },
    { key: 4, at: 1, row: { id: 4, title: 'n4' } },
  ])
  // The fourth moves up when another goes.
  await api.call('DELETE /api/collections/notes/3', { as: ana.token })
  await until(talker, 1, (items) =>
    assert.deepEqual(
      items.map(({ id }) => id),
      [1, 4, 2],
    ),
  )
  assert.equal((await talker.ask({ type: 'unlive', live: 1 })).status, 'ok')
  talker.close()
})

test('rows of others are not heard of, and cause no message', async () => {
  const [hers, his] = [await talk(ana), await talk(bo)]
  await live(hers, 'notes', { filter: 'id >= 100' })
  await live(his, 'notes', { filter: 'id >= 100' })
  await write(ana, 'notes', { id: 100 })
  await write(bo, 'notes', { id: 101 })
  await until(hers, 1, (items) =>
    assert.deepEqual(
      items.map(({ id }) => id),
      [100],
    ),
  )
  await until(his, 1, (items) =>
    assert.deepEqual(
      items.map(({ id }) => id),
      [101],
    ),
  )
  await api.sql(`update notes set owner = '${bo.user.id}' where id = 100`)
  await until(hers, 1, (items) => assert.deepEqual(items, []))
  await until(his, 1, (items) =>
    assert.deepEqual(
      items.map(({ id }) => id),
      [100, 101],
    ),
  )
  assert.deepEqual(
    messages(hers, 1).map(({ type }) => type),
    ['rows', 'diff', 'diff'],
  )
  for (const talker of [hers, his]) talker.close()
})

test('another table that a policy reads decides it, and one that is expanded or filtered by', async () => {
  const talker = await talk(ana)
  await api.sql(`insert into tasks values (1, 1, 'a'), (2, 2, 'b')`)
  await live(talker, 'tasks')
  await live(talker, 'notes', { filter: 'id = 200', expand: 'author' })
  await live(talker, 'notes', { filter: "id >= 200 && id < 300 && author.name = 'Cleo'" })
  await write(ana, 'notes', { id: 200, author_id: 1 })
  await until(talker, 2, ([note]) => assert.equal(note?.expand.author.name, 'Ada'))
  await api.sql(`insert into memberships values (2, '${ana.user.id}')`)
  await until(talker, 1, (items) =>
    assert.deepEqual(
      items.map(({ id }) => id),
      [2],
    ),
  )
  await api.sql(`update people set name = 'Cleo' where id = 1`)
  await until(talker, 2, ([note]) => assert.equal(note.expand.author.name, 'Cleo'))
  await until(talker, 3, (items) =>
    assert.deepEqual(
      items.map(({ id }) => id),
      [200],
    ),
  )
  await api.sql(`delete from memberships where person = '${ana.user.id}'`)
  await until(talker, 1, (items) => assert.deepEqual(items, []))
  talker.close()
})

test('a row is heard of by those whom a query in a policy lets see it, as that answers now', async () => {
  const [mine, theirs] = [ana.user.id, bo.user.id]
  await api.sql(`create table docs (id int primary key, team_id int, owner uuid);
    alter table docs enable row level security;
    create policy reading on docs using (owner = svc.uid() or team_id in (select m.team_id from memberships m where m.person = svc.uid()));
    grant all on docs to svc_authenticated; select svc.watch('docs');
    insert into teams select n, 'many' from generate_series(100, 400) n; insert into memberships values (100, '${mine}')`)
  const talker = await talk(ana)
  await eventually(async () => assert.equal((await live(talker, 'docs')).status, 'ok'))
  await live(talker, 'docs', { filter: 'team_id = 101' })
  const holds = (number: number, ...ids: number[]) =>
    until(talker, number, (items) =>
      assert.deepEqual(
        items.map(({ id }) => id),
        ids,
      ),
    )
  await api.sql(`insert into docs values (1, 100), (2, 101)`)
  await holds(1, 1)
  // In one commit with the row, and before it.
  await api.sql(`begin; insert into docs values (3, 101); insert into memberships values (101, '${mine}'); commit`)
  await holds(1, 1, 2, 3)
  await holds(2, 2, 3)
  await api.sql(`insert into docs values (4, 101, null), (5, 102, null), (6, 102, '${mine}')`)
  await holds(1, 1, 2, 3, 4, 6)
  await holds(2, 2, 3, 4)
  await api.sql(`delete from memberships where team_id = 101 and person = '${mine}'`)
  await holds(1, 1, 6)
  await holds(2)
  // Rows that come and go by a column.
  await api.sql(`update docs set team_id = 100 where id in (2, 5); update docs set owner = '${theirs}' where id = 6`)
  await holds(1, 1, 2, 5)
  // More than are kept.
  await api.sql(`insert into memberships select n, '${mine}' from generate_series(150, 400) n`)
  await api.sql(`insert into docs values (7, 399), (8, 102)`)
  await holds(1, 1, 2, 5, 7)
  // A query that reads the row itself.
  await api.sql(`alter policy reading on docs using (team_id in (select m.team_id from memberships m where m.person = docs.owner));
    delete from memberships where person = '${mine}' and team_id > 100; insert into memberships values (102, '${theirs}')`)
  await holds(1, 6)
  await api.sql(`insert into docs values (9, 100, '${mine}'), (10, 102, '${mine}')`)
  await holds(1, 6, 9)
  talker.close()
})

test('aggregates are a row for each group, keys of several columns are arrays, and a key may change', async () => {
  const talker = await talk(ana)
  await write(ana, 'pairs', { a: 1, b: 1, body: 'x' })
  await live(talker, 'pairs', { aggregate: 'count,max(b)', group: 'a' })
  await live(talker, 'pairs', { filter: "body = 'x'" })
  const [sums, rows] = [(row: { a: number }) => [row.a], ({ a, b }: { a: number; b: number }) => [a, b]]
  await write(ana, 'pairs', { a: 1, b: 2, body: 'x' })
  await until(talker, 1, (items) => assert.deepEqual(items, [{ a: 1, count: 2, max_b: 2 }]), sums)
  await until(talker, 2, (items) => assert.equal(items.length, 2), rows)
  assert.deepEqual(messages(talker, 1).at(-1).changes[0].key, [1])
  assert.deepEqual(messages(talker, 2).at(-1).changes, [{ key: [1, 2], at: 1, row: { a: 1, b: 2, body: 'x' } }])
  await api.call('PATCH /api/collections/pairs/1,2', { as: ana.token, json: { b: 7, body: 'y' } })
  await until(
    talker,
    2,
    (items) =>
      assert.deepEqual(
        items.map(({ b }) => b),
        [1],
      ),
    rows,
  )
  await until(talker, 1, (items) => assert.deepEqual(items, [{ a: 1, count: 2, max_b: 7 }]), sums)
  talker.close()
})

test('without a key the rows are sent again when they have changed, and only then; a view names what it depends on', async () => {
  const talker = await talk(ana)
  await live(talker, 'loose', { filter: "body != 'hidden'" })
  await live(talker, 'titles', { filter: "title = 'seen'", depends: 'notes' })
  await write(ana, 'loose', { body: 'hidden' })
  await write(ana, 'loose', { body: 'one' })
  await write(ana, 'notes', { id: 300, title: 'unseen' })
  await write(ana, 'notes', { id: 301, title: 'seen' })
  await eventually(() =>
    assert.deepEqual(
      messages(talker, 1).map(({ items }) => items),
      [[], [{ body: 'one' }]],
    ),
  )
  await eventually(() =>
    assert.deepEqual(
      messages(talker, 2).map(({ items }) => items),
      [[], [{ title: 'seen' }]],
    ),
  )
  talker.close()
})

test('while a table shows a key twice, through one that inherits from it, its rows come without keys and never as a diff', async () => {
  await api.sql(`create table drafts (id int primary key, body text);
    create table archived (primary key (id)) inherits (drafts);
    grant all on drafts, archived to svc_authenticated;
    select svc.watch('drafts'), svc.watch('archived');
    insert into drafts values (1, 'a'), (2, 'b')`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/drafts', { as: ana.token })).status, 200),
  )
  const talker = await talk(ana)
  const { live: number } = await live(talker, 'drafts', { sort: 'id' }, { keys: true })
  const steps = [
    ['', [1, 2], 'rows'],
    [`insert into archived values (1, 'c')`, undefined, 'rows'],
    [`begin; delete from only drafts where id = 1; update drafts set body = body || '!'; commit`, [1, 2], 'rows'],
    [`update drafts set body = 'd' where id = 2`, undefined, 'diff'],
  ] as const
  for (const [i, [statement, keys, type]] of steps.entries()) {
    if (statement) await api.sql(statement)
    await eventually(() => assert.equal(messages(talker, number).length, i + 1))
    const message = messages(talker, number).at(-1)
    assert.deepEqual([message?.type, message?.['keys']], [type, keys], statement)
  }
})

test('TRUNCATE leaves an empty list', async () => {
  const talker = await talk(ana)
  await api.sql(`create table short (id int primary key); grant all on short to svc_authenticated;
    insert into short values (1), (2); select svc.watch('short')`)
  await eventually(async () => assert.equal((await live(talker, 'short')).status, 'ok'))
  const number = talker.heard.find(({ type }) => type === 'rows').live
  await api.sql('truncate short')
  await until(talker, number, (items) => assert.deepEqual(items, []))
  assert.deepEqual(messages(talker, number).at(-1).changes, [
    { key: 1, gone: true },
    { key: 2, gone: true },
  ])
  talker.close()
})

test('a change of policies, grants or columns reads the lists again', async () => {
  const talker = await talk(ana)
  await api.sql(`create table plain (id int primary key, a text, b text); grant all on plain to svc_authenticated;
    insert into plain values (1, 'a', 'b')`)
  await eventually(async () => assert.equal((await live(talker, 'plain')).status, 'ok'))
  const number = talker.heard.findLast(({ type }) => type === 'rows').live
  await api.sql('alter table plain enable row level security')
  await until(talker, number, (items) => assert.deepEqual(items, []))
  await api.sql('create policy all_of_them on plain for select to svc_authenticated using (true)')
  await until(talker, number, (items) => assert.deepEqual(items, [{ id: 1, a: 'a', b: 'b' }]))
  await api.sql('alter table plain drop column b, add column c int default 7')
  await until(talker, number, (items) => assert.deepEqual(items, [{ id: 1, a: 'a', c: 7 }]))
  await api.sql(`revoke select on plain from svc_authenticated; grant select (id, c) on plain to svc_authenticated`)
  await until(talker, number, (items) => assert.deepEqual(items, [{ id: 1, c: 7 }]))
  await api.sql('drop table plain')
  const error = await talker.until(({ type, live }) => type === 'error' && live === number)
  assert.deepEqual([error.code, error.error], [404, 'collection_not_found'])
  talker.close()
})

test('as a stream it is the same, with the position as the id; a token in the URL is enough', async () => {
  await write(ana, 'notes', { id: 400, title: 'a' })
  const url = new URL('/api/collections/notes', api.url)
  const stream = await listenTo(api.url, {
    path: url.pathname,
    query: { live: 'true', filter: 'id >= 400 && id < 500', fields: 'id', token: ana.token },
  })
  assert.equal(stream.headers['content-type'], 'text/event-stream')
  const rows = await stream.until(({ event }) => event === 'rows')
  assert.deepEqual(rows.data, { position: rows.id, items: [{ id: 400 }] })
  await write(ana, 'notes', { id: 401 })
  const diff = await stream.until(({ event }) => event === 'diff')
  assert.deepEqual(diff.data, { position: diff.id, changes: [{ key: 401, at: 1, row: { id: 401 } }] })
  stream.close()
})

test('who comes back with the last position is sent what has changed since, or nothing', async () => {
  const talker = await talk(ana)
  const query = { filter: 'id >= 500 && id < 600', fields: 'id' }
  await live(talker, 'notes', query)
  await write(ana, 'notes', { id: 500 })
  const { position } = await talker.until(({ type }) => type === 'diff')
  talker.close()
  const again = await talk(ana)
  assert.equal((await live(again, 'notes', query, { position })).status, 'ok')
  await write(ana, 'notes', { id: 501 })
  await again.until(({ type }) => type === 'diff')
  assert.deepEqual(
    messages(again, 1).map(({ type, changes }) => [type, changes]),
    [['diff', [{ key: 501, at: 1, row: { id: 501 } }]]],
  )
  assert.equal((await live(again, 'notes', query, { position: '1-1' })).status, 'ok')
  assert.equal((await again.until(({ live }) => live === 2)).type, 'reply')
  assert.equal((await again.until(({ live, type }) => live === 2 && type !== 'reply')).type, 'rows')
  again.close()
})

test('where the log goes on elsewhere, as after a restore, all rows are sent again', async () => {
  const talker = await talk(ana)
  await live(talker, 'notes', { filter: 'id >= 600', fields: 'id' })
  await write(ana, 'notes', { id: 600 })
  const { position } = await talker.until(({ type }) => type === 'diff')
  await api.sql(`delete from svc.change_log where id >= ${position.split('-')[1]} - 1024`)
  await api.sql(`insert into notes (id, owner) values (601, '${ana.user.id}')`)
  await api.sql(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  )
  await eventually(() => {
    assert.equal(messages(talker, 1).filter(({ type }) => type === 'rows').length, 2)
    assert.deepEqual(
      liveRows(talker, 1).items.map((row) => (row as { id: number }).id),
      [600, 601],
    )
  })
  talker.close()
})
