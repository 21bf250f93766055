import assert from 'node:assert/strict'
import { before, beforeEach, test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer({ config: { 'api.export_max_rows': 5000, 'api.import_max_size': '20MB' } })
  await api.sql(`
    create table people (id int primary key, name text, age int check (age < 200), tags text[], meta jsonb, made timestamptz, twice int generated always as (id * 2) stored);
    create table one (v text);
    create table owned (id int primary key, owner text);
    alter table owned enable row level security;
    create policy own on owned using (owner = 'me') with check (owner = 'me');
    create table later (id int primary key, other int references later deferrable initially deferred);
    create view shown as select count(*) from people;
  `)
})
beforeEach(() => api.sql('truncate people, one, owned, later; truncate svc.change_log, svc.change_packs'))

const CSV = { 'content-type': 'text/csv' }
const NDJSON = { 'content-type': 'application/x-ndjson' }
const put = (table: string, body: string | Uint8Array, headers: Record<string, string> = CSV, query = '') =>
  api.call(`POST /api/collections/${table}/import${query}`, { body, headers })
const rowsOf = async (table: string) => Number((await api.sql(`select count(*) as n from ${table}`))[0]?.n)
const counts = (created: number, updated = 0, skipped = 0, dry_run = false) => ({
  created,
  updated,
  skipped,
  dry_run,
})

test('an export is a file in each format, sorted and filtered as a list', async () => {
  await api.sql(`insert into people values (1, 'a "b", c', null, '{x,"y z"}', '{"k": [1]}', '2026-01-02T03:04:05Z'),
    (2, '', 7, null, 'null', null), (3, e'two\\nlines', 1, '{}', null, null)`)
  const csv = await api.call('GET /api/collections/people/export.csv?sort=id&fields=id,name,age,tags,meta,made')
  assert.equal(csv.status, 200)
  assert.equal(csv.headers.get('content-disposition'), 'attachment; filename="people.csv"')
  assert.match(csv.headers.get('content-type') ?? '', /^text\/csv/)
  assert.equal(
    csv.text,
    `id,name,age,tags,meta,made\r
1,"a ""b"", c",,"[""x"",""y z""]","{""k"": [1]}",2026-01-02T03:04:05+00:00\r
2,"",7,,null,\r
3,"two\nlines",1,[],,\r\n`,
  )
  const { body } = await api.call('GET /api/collections/people/export.json?sort=-id&fields=id')
  assert.deepEqual(body, [{ id: 3 }, { id: 2 }, { id: 1 }])
  const lines = await api.call('GET /api/collections/people/export.ndjson?fields=id,name&filter=id>1')
  assert.equal(lines.text, '{"id":2,"name":""}\n{"id":3,"name":"two\\nlines"}\n')
  assert.deepEqual((await api.call('GET /api/collections/people/export.json?filter=id>99')).body, [])
})

test('a search decides what is exported, and in which order, together with filter and sort', async () => {
  await api.sql(`insert into people (id, name, age) values (1, 'red fox', 3), (2, 'red red red', 9), (3, 'blue fox', 5),
    (4, 'red hen', 3), (5, 'red hen', 2)`)
  const found = async (query: string) => {
    const { status, text } = await api.call(`GET /api/collections/people/export.ndjson?fields=id&${query}`)
    assert.equal(status, 200, text)
    return [...text.matchAll(/\d+/g)].map(Number)
  }
  const listed = await api.call('GET /api/collections/people?search=red&sort=-age,-id&filter=age<9')
  const expected = listed.body.items.map(({ id }: { id: number }) => id)
  assert.deepEqual(await found('search=red&sort=-age,-id&filter=age<9'), expected)
  assert.deepEqual(expected.sort(), [1, 4, 5])
  assert.equal((await found('search=red'))[0], 2)
  assert.deepEqual(await found('filter=age<=3&sort=age,-id'), [5, 4, 1])
  assert.deepEqual(await found('search=-red'), [3])
})

test('more rows than allowed are refused before the first byte', async () => {
  await api.sql('insert into people (id) select generate_series(1, 5001)')
  const { status, body } = await api.call('GET /api/collections/people/export.csv')
  assert.deepEqual([status, body.message], [413, 'more than 5000 rows to export'])
  const fewer = await api.call('GET /api/collections/people/export.csv?filter=id<=5000')
  assert.equal(fewer.text.split('\r\n').length, 5002)
  assert.equal((await api.call('GET /api/collections/people/export.csv?filter=no>1')).status, 400)
  assert.equal((await api.call('GET /api/collections/nothing/export.csv')).status, 404)
})

test('spreadsheets are read: byte order mark, line ends, quoted line breaks', async () => {
  const { status, body } = await put('people', '\ufeffid,name\r\n1,"a ""b""\r\nc"\r\n\r\n2,\r\n3,""')
  assert.deepEqual([status, body], [200, counts(3)])
  assert.deepEqual(await api.sql('select id, name from people order by id'), [
    { id: '1', name: 'a "b"\r\nc' },
    { id: '2', name: null },
    { id: '3', name: '' },
  ])
  const refused = await put('people', 'id;name\r\n1;a')
  assert.deepEqual([refused.status, refused.body.message], [400, 'columns must be separated by commas, not semicolons'])
  assert.equal((await put('one', 'v\n\na\n')).body.created, 2)
})

test('each row is in the change log as a create, or as what an upsert made of it', async () => {
  await put('people', 'id,name,twice\n1,a,9\n2,b,9')
  const json = JSON.stringify([
    { id: 2, name: 'B', x: 1 },
    { id: 3, meta: { a: null } },
  ])
  const upsert = await put('people', json, { 'content-type': 'application/json' }, '?onConflict=id')
  assert.deepEqual([upsert.status, upsert.body], [200, counts(1, 1)])
  const ignored = await put('people', '{"id":3}\n\n{"id":4}\n{"id":4}\n', NDJSON, '?onConflict=id&merge=ignore')
  assert.deepEqual([ignored.status, ignored.body], [200, counts(1, 0, 2)])
  assert.deepEqual(
    (
      await api.sql(
        `select action, pk ->> 'id' as id, old_record ->> 'name' as old from svc.changes order by pk ->> 'id', id`,
      )
    ).map(({ action, id, old }) => [action, id, old]),
    [
      ['create', '1', null],
      ['create', '2', null],
      ['update', '2', 'b'],
      ['create', '3', null],
      ['create', '4', null],
    ],
  )
  const twice = await put('people', 'id,name\n9,a\n9,b', CSV, '?onConflict=id')
  assert.deepEqual([twice.status, twice.body], [200, counts(1, 1)])
})

test('a dry run tells what would happen and keeps nothing', async () => {
  const { body } = await put('people', 'id\n1\n2', CSV, '?dry_run=true')
  assert.deepEqual(body, counts(2, 0, 0, true))
  assert.equal(await rowsOf('people'), 0)
  assert.deepEqual(await api.sql('select from svc.changes'), [])
})

test('an hstore goes in as it came out, in each format and one by one', async () => {
  await api.sql(`create schema ext; create extension hstore schema ext; grant usage on schema ext to public; create domain bag as ext.hstore;
    create domain held as ext.hstore not null;
    create table bags (id int primary key, h ext.hstore, b bag, d held default 'k=>v', unique (h));
    insert into bags values (1, 'a=>1,"b c"=>NULL', '""=>"\\"\\\\"'), (2, '', null)`)
  const rows = () => api.sql('select id, h::text, b::text, d::text from bags order by id')
  const before = await rows()
  const listed = (await api.call('GET /api/collections/bags?sort=id')).body.items
  assert.deepEqual(listed[0], { id: 1, h: { a: '1', 'b c': null }, b: { '': '"\\' }, d: { k: 'v' } })
  const types = { csv: 'text/csv', json: 'application/json', ndjson: 'application/x-ndjson' }
  for (const [format, type] of Object.entries(types)) {
    const file = await api.call(`GET /api/collections/bags/export.${format as 'csv'}?sort=id`)
    await api.sql('truncate bags')
    const back = await put('bags', file.text, { 'content-type': type })
    assert.equal(back.status, 200, `${format}: ${back.text}`)
    assert.deepEqual(await rows(), before, format)
  }
  const again = await api.call('POST /api/collections/bags?onConflict=h&merge=ignore', {
    json: { ...listed[0], id: 3 },
  })
  assert.deepEqual([again.status, again.body], [200, listed[0]], again.text)
  const text = await api.call('PATCH /api/collections/bags/2', { json: { h: 'x=>y', b: listed[0].b } })
  assert.deepEqual([text.status, text.body], [200, { ...listed[0], id: 2, h: { x: 'y' } }], text.text)
  const json = { operations: [{ method: 'update', id: '2', body: { h: { x: 'z' }, b: null, d: { k: 'v' } } }] }
  const batch = await api.call('POST /api/collections/bags/batch', { json })
  assert.equal(batch.status, 200, batch.text)
  assert.deepEqual((await rows())[1], { id: '2', h: '"x"=>"z"', b: null, d: '"k"=>"v"' })
  assert.equal((await api.call('POST /api/collections/bags', { json: { id: 4, h: '=>' } })).status, 400)
})

test('a column whose name begins and ends with a blank goes out and comes in again', async () => {
  await api.sql(`create table blanks (id int primary key, " sp " text); insert into blanks values (1, 'x')`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/blanks')).status, 200))
  const { text } = await api.call('GET /api/collections/blanks/export.csv')
  await api.sql(`update blanks set " sp " = 'y'`)
  const headers = { 'content-type': 'text/csv' }
  const { status } = await api.call('POST /api/collections/blanks/import?onConflict=id', { headers, body: text })
  assert.equal(status, 200)
  assert.deepEqual(await api.sql('select * from blanks'), [{ id: '1', ' sp ': 'x' }])
})

test('bad rows are named by their lines, and nothing is kept', async () => {
  const lines = Array.from({ length: 1200 }, (_, i) => `${i + 1},${i === 7 ? 'old' : i === 1100 ? 300 : 5}`)
  const { status, body } = await put('people', `id,age\n${lines.join('\n')}\n5,1\n6`)
  assert.deepEqual([status, body.message], [422, 'import failed'])
  assert.deepEqual(
    body.data.rows.map(({ line }: { line: number }) => line),
    [9, 1102, 1202, 1203],
  )
  assert.match(body.data.rows[0].message, /invalid integer value/)
  assert.equal(await rowsOf('people'), 0)
  const all = await put('people', `id\n${'x\n'.repeat(100)}`)
  assert.equal(all.body.data.rows.length, 20)
  const json = await put('people', '[{"id":1},{"id":"x"},5,{"no":1},{"id":1}]', { 'content-type': 'application/json' })
  assert.deepEqual(
    json.body.data.rows.map(({ line }: { line: number }) => line),
    [2, 3, 4, 5],
  )
})

test('rights hold, and constraints that wait for the end', async () => {
  const refused = await put('owned', 'id,owner\n1,me\n2,you')
  assert.deepEqual([refused.status, refused.body.message], [403, 'insufficient permissions'])
  assert.equal(await rowsOf('owned'), 0)
  assert.equal((await put('later', 'id,other\n1,2\n2,1')).status, 200)
  assert.equal((await put('later', 'id,other\n3,9')).status, 400)
  assert.equal(await rowsOf('later'), 2)
  assert.equal((await put('shown', 'count\n1')).status, 405)
})

test('what is no import is refused with a sentence', async () => {
  const cases: [string | Uint8Array, Record<string, string>, number, string][] = [
    ['', CSV, 400, 'no rows to import'],
    ['id,name\r\n', CSV, 400, 'no rows to import'],
    ['[]', { 'content-type': 'application/json' }, 400, 'no rows to import'],
    ['{}', { 'content-type': 'application/json' }, 400, 'invalid JSON body'],
    ['[1', { 'content-type': 'application/json' }, 400, 'invalid JSON body'],
    ['[1,,2]', { 'content-type': 'application/json' }, 400, 'invalid JSON body'],
    ['id,no\n1,2', CSV, 400, 'unknown column "no"'],
    ['id,id\n1,2', CSV, 400, 'column "id" stands twice'],
    [new Uint8Array([0x69, 0x64, 0x0a, 0xff]), CSV, 400, 'request body must be UTF-8'],
    [
      'x',
      { 'content-type': 'text/plain' },
      415,
      'content type must be text/csv, application/json or application/x-ndjson',
    ],
  ]
  for (const [sent, headers, status, message] of cases) {
    const answer = await put('people', sent, headers)
    assert.deepEqual([answer.status, answer.body.message], [status, message])
  }
  const conflict = await put('people', 'id\n1', CSV, '?onConflict=name')
  assert.deepEqual([conflict.status, conflict.body.message], [400, 'onConflict needs a unique constraint on (name)'])
})

test('endless rows, open quotes and bodies beyond the limit are refused early', async () => {
  const quotes = await put('people', `id,name\n1,"${'x'.repeat(9 * 2 ** 20)}`)
  assert.deepEqual([quotes.status, quotes.body.data?.rows], [422, [{ line: 2, message: 'row is too long' }]])
  const open = await put('people', 'id,name\n1,"x\n2,y\n')
  assert.deepEqual(open.body.data?.rows, [{ line: 2, message: 'a quote is not closed' }])
  const line = await put('people', `{"id":1}\n{"name":"${'x'.repeat(9 * 2 ** 20)}"}`, NDJSON)
  assert.deepEqual(line.body.data?.rows, [{ line: 2, message: 'row is too long' }])
  const commas = await put('people', `id\n${','.repeat(9 * 2 ** 20)}`)
  assert.deepEqual(commas.body.data?.rows, [{ line: 2, message: 'row is too long' }])
  const large = await put('people', 'id\n'.repeat(7 * 2 ** 20))
  assert.equal(large.status, 413)
})

test('ids that are always generated come back as they were, and a row without one gets a new one', async () => {
  await api.sql(`create table numbered (id bigint generated always as identity primary key, slug text unique, title text, tags text[],
      loud text generated always as (upper(title)) stored);
    insert into numbered (slug, title, tags) values ('a', 'x', '{p,"q r"}'), ('b', 'y', null), ('c', 'z', '{}'); delete from numbered where id = 2`)
  const before = await api.sql('select * from numbered order by id')
  for (const [format, type] of Object.entries({
    csv: 'text/csv',
    json: 'application/json',
    ndjson: NDJSON['content-type'],
  })) {
    const { text } = await api.call(`GET /api/collections/numbered/export.${format as 'csv'}?sort=id`)
    const same = await put('numbered', text, { 'content-type': type }, '?onConflict=id')
    assert.deepEqual([same.status, same.body], [200, counts(0, 2)], format)
    const bySlug = await put('numbered', text, { 'content-type': type }, '?onConflict=slug')
    assert.deepEqual([bySlug.status, bySlug.body], [200, counts(0, 2)], format)
    await api.sql('truncate numbered')
    const again = await put('numbered', text, { 'content-type': type })
    assert.deepEqual([again.status, again.body], [200, counts(2)], format)
    assert.deepEqual(await api.sql('select * from numbered order by id'), before, format)
  }
  // The sequence goes on where it was.
  assert.deepEqual((await put('numbered', 'id,title,tags\n,new,[]\n9,given,\n,newer,[]\n')).body, counts(3))
  assert.deepEqual(
    (
      await put('numbered', '[{"id":null,"title":"last"},{"title":"very last"}]', {
        'content-type': 'application/json',
      })
    ).body,
    counts(2),
  )
  assert.deepEqual(
    (await api.sql(`select id::int, title from numbered where slug is null order by id`)).map(({ id, title }) => [
      Number(id),
      title,
    ]),
    [
      [4, 'new'],
      [5, 'newer'],
      [6, 'last'],
      [7, 'very last'],
      [9, 'given'],
    ],
  )
  assert.deepEqual((await put('numbered', 'id\n\n')).body.data.rows, [{ line: 2, message: 'no recognized columns' }])
  const one = await api.call('POST /api/collections/numbered', { json: { id: 77, title: 'x' } })
  assert.deepEqual([one.status, one.body.error], [400, 'generated_always'])
})

test('who may not insert an id may not import one', async () => {
  await api.sql(`create table guarded (id int generated always as identity primary key, title text);
    revoke insert on guarded from svc_anon; grant insert (title) on guarded to svc_anon`)
  assert.equal((await put('guarded', 'title\nx\n')).status, 200)
  assert.deepEqual((await put('guarded', 'id,title\n,y\n,z\n')).body, counts(2))
  assert.equal((await put('guarded', 'id,title\n5,x\n')).status, 403)
})
