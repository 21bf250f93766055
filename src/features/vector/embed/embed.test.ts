import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, test } from 'node:test'
import { type Received, startReceiver } from '../../../../test/fakes/receiver.ts'
import { withoutExtensions } from '../../../../test/kit/cluster.ts'
import { type Answer, eventually, spawnServer, startServer, type TestServer } from '../../../../test/kit/kit.ts'

const told = ({ status, body }: Answer) => `${status} ${body.message}`
const asAdmin = { as: 'admin' }
const keep = (api: TestServer, json: object) => api.call('POST /api/admin/vector/embed', { ...asAdmin, json })
const kept = async (api: TestServer) => (await api.call('GET /api/admin/vector/embed', asAdmin)).body.embeddings
const missing = async (api: TestServer) =>
  Number((await api.sql('select count(*) as n from notes where meaning is null'))[0].n)
const schemaOf = async (api: TestServer) => JSON.stringify((await api.call('GET /api/schema', asAdmin)).body)
const asked = { table: 'notes', columns: ['title', 'body'], vector_column: 'meaning' }
const vectorOf = async (api: TestServer, id: number): Promise<string | null> =>
  (await api.sql('select meaning::text as v from notes where id = $1', [id]))[0].v
const config = { 'ai.embedding_provider': 'hash' }

test('a vector column is filled, and stays filled whoever writes the rows', async () => {
  const api = await startServer({ config })
  await api.sql(`
    create table notes (id bigint primary key, title text, body text, meaning real[]);
    insert into notes select 9007199254740993 + i, 'title ' || i, 'body ' || i from generate_series(1, 120) i;
    insert into notes values (1, '', null, null), (2, 'own vector', '', '{1,2,3}')`)
  const made = await keep(api, asked)
  assert.equal(made.status, 202)
  const { id, created_at, waiting, ...rest } = made.body
  assert.deepEqual(rest, {
    schema: 'public',
    ...asked,
    status: 'filling',
    embedded: 0,
    refused: 0,
    last_error: null,
    last_embedded_at: null,
  })
  await eventually(async () => {
    const [one] = await kept(api)
    assert.deepEqual([one.status, one.embedded, one.waiting], ['following', 120, 0])
  })
  assert.equal(await missing(api), 1)
  assert.equal(await vectorOf(api, 2), '{1,2,3}')

  // Through the API and around it; a text that changes, one that appears, one that goes.
  await api.call('POST /api/collections/notes', { json: { id: 3, title: 'made by a client' } })
  await api.sql(
    `insert into notes values (4, 'made in psql'); update notes set body = 'now it says something' where id = 1`,
  )
  await eventually(async () => assert.equal(await missing(api), 0))
  const before = await vectorOf(api, 4)
  await api.call('PATCH /api/collections/notes/4', { json: { title: 'other words' } })
  await eventually(async () => assert.notEqual(await vectorOf(api, 4), before))
  await api.sql(`update notes set title = '', body = ' ' where id = 3`)
  await eventually(async () => assert.equal(await vectorOf(api, 3), null))
  await api.sql(`update notes set title = 'both', meaning = '{9}' where id = 4`)
  const found = await api.call(
    `GET /api/collections/notes?${new URLSearchParams({ semantic_query: 'it says something', vector_column: 'meaning' })}`,
  )
  assert.equal(found.body.items[0].id, 1)
  await eventually(async () => assert.equal((await kept(api))[0].waiting, 0))
  assert.equal(await vectorOf(api, 4), '{9}')

  assert.equal((await api.call(`DELETE /api/admin/vector/embed/${id}`, asAdmin)).status, 204)
  assert.equal(told(await api.call(`DELETE /api/admin/vector/embed/${id}`, asAdmin)), '404 embedding not found')
  assert.equal(told(await api.call('DELETE /api/admin/vector/embed/x', asAdmin)), '400 invalid embedding id format')
  assert.deepEqual(await kept(api), [])
})

test('a partitioned table is kept filled, whichever partition a row is in or moves to', async () => {
  const api = await startServer({ config })
  await api.sql(`
    create table notes (id int, year int, title text, body text, meaning real[], primary key (id, year)) partition by list (year);
    create table notes_1 partition of notes for values in (1);
    create table notes_2 partition of notes for values in (2);
    insert into notes select i, 1 + i % 2, 'title ' || i from generate_series(1, 130) i`)
  assert.equal((await keep(api, asked)).status, 202)
  await eventually(async () => {
    const [one] = await kept(api)
    assert.deepEqual([one.status, one.embedded, one.last_error], ['following', 130, null])
  })
  await api.call('POST /api/collections/notes', { json: { id: 200, year: 2, title: 'by a client' } })
  await api.sql(`insert into notes_1 values (201, 1, 'into the partition itself')`)
  await eventually(async () => assert.equal(await missing(api), 0))
  // To PostgreSQL a row that moves is a new one; it brings its vector along.
  const before = await vectorOf(api, 201)
  await api.sql('update notes set year = 2 where id = 201')
  assert.equal(await vectorOf(api, 201), before)
  await api.sql(`update notes set title = 'moved and changed' where id = 201`)
  await eventually(async () => assert.notEqual(await vectorOf(api, 201), before))
  const query = new URLSearchParams({ semantic_query: 'moved and changed', vector_column: 'meaning' })
  assert.equal((await api.call(`GET /api/collections/notes?${query}`)).body.items[0].id, 201)
})

test('rows written while a column is missing or of another type get their vector when it is back', async () => {
  const api = await startServer({ config })
  await api.sql('create table notes (id int primary key, title text, body text, meaning real[])')
  assert.equal((await keep(api, asked)).status, 202)
  await eventually(async () => assert.equal((await kept(api))[0].status, 'following'))
  for (const [id, away, back, error] of [
    [1, 'rename title to heading', 'rename heading to title', 'column "title" is not a text column'],
    [2, 'alter title type int using null', 'alter title type text', 'column "title" is not a text column'],
    [3, 'rename meaning to sense', 'rename sense to meaning', 'column "meaning" is not a vector column'],
  ] as const) {
    const before = await schemaOf(api)
    await api.sql(`alter table notes ${away}`)
    // The server knows of it: before that, a number would be taken for a text.
    await eventually(async () => assert.notEqual(await schemaOf(api), before))
    await api.sql(`insert into notes (id, body) values (${id}, 'words')`)
    await eventually(async () => {
      const [one] = await kept(api)
      assert.deepEqual([one.last_error, one.waiting], [error, 1])
    })
    await api.sql(`alter table notes ${back}`)
    await eventually(async () => {
      const [one] = await kept(api)
      assert.deepEqual([one.last_error, one.waiting, await missing(api)], [null, 0, 0])
    })
  }
})

test('what cannot be kept filled is refused', async () => {
  const api = await startServer({ config })
  await api.sql(`create table notes (id int primary key, title text, n int, meaning real[]);
    create table loose (title text, meaning real[]); create view seen as select * from notes`)
  const one = { table: 'notes', columns: ['title'], vector_column: 'meaning' }
  assert.equal(told(await keep(api, {})), '400 table is required')
  assert.equal(told(await keep(api, { ...one, columns: [] })), '400 columns is required')
  assert.equal(told(await keep(api, { ...one, columns: 'title' })), '400 columns must be an array of strings')
  assert.equal(told(await keep(api, { ...one, table: 'nowhere' })), '404 table not found')
  assert.equal(told(await keep(api, { ...one, columns: ['n'] })), '400 column "n" is not a text column')
  assert.equal(told(await keep(api, { ...one, columns: ['nope'] })), '400 column "nope" is not a text column')
  assert.equal(told(await keep(api, { ...one, vector_column: 'title' })), '400 column "title" is not a vector column')
  assert.equal(told(await keep(api, { ...one, table: 'loose' })), '400 table has no primary key')
  assert.equal(told(await keep(api, { ...one, table: 'seen' })), '400 only tables can be kept filled')
  assert.equal((await api.call('GET /api/admin/vector/embed')).status, 401)
  const without = await startServer({ on: api })
  const missingProvider = '400 semantic search is not configured: no embedding provider available'
  assert.equal(told(await keep(without, one)), missingProvider)
})

const peer = await startReceiver()
after(() => peer.close())
const remote = {
  'ai.embedding_provider': 'openai',
  'ai.openai.base_url': peer.url,
  'ai.max_retries': 0,
  'ai.breaker.failure_threshold': 1000,
}
const vectors = (request: Received, response: ServerResponse) => {
  const { input } = JSON.parse(request.body)
  const data = input.map((text: string, index: number) => ({ index, embedding: [text.length, 1, 2] }))
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ data }))
}

test('one text the provider does not want keeps no other from its vector', { skip: withoutExtensions }, async () => {
  const api = await startServer({ postgres: 'extensions', config: remote })
  await api.sql(`create extension vector; create table notes (id int primary key, title text, body text, meaning vector(3));
    insert into notes select i, case i when 7 then 'unwanted' else 'fine' end from generate_series(1, 60) i`)
  peer.answer = (request, response) =>
    request.body.includes('unwanted') ? response.writeHead(400).end('{}') : vectors(request, response)
  await keep(api, asked)
  await eventually(async () => {
    const [one] = await kept(api)
    assert.deepEqual([one.status, one.embedded], ['following', 59])
    assert.ok(one.refused >= 1)
  })
  assert.equal(await missing(api), 1)
})

test('rows that a trigger keeps as they are end the pass all the same', async () => {
  const api = await startServer({ config: remote })
  await api.sql(`create table notes (id int primary key, title text, body text, meaning real[]);
    insert into notes select i, 'note ' || i from generate_series(1, 20) i;
    create function stubborn() returns trigger language plpgsql as 'begin return null; end';
    create trigger stubborn before update on notes for each row execute function stubborn()`)
  let texts = 0
  peer.answer = (request, response) => {
    texts += JSON.parse(request.body).input.length
    vectors(request, response)
  }
  await keep(api, asked)
  await eventually(async () => assert.equal((await kept(api))[0].status, 'following'))
  assert.equal((await kept(api))[0].embedded, 0)
  assert.ok(texts >= 20)
})

test('numbers that a column cannot hold cost the vector of their row alone', async () => {
  const api = await startServer({ config: remote })
  await api.sql(`create table notes (id int primary key, title text, body text, meaning real[]);
    insert into notes select i, case i when 7 then 'huge' else 'fine' end from generate_series(1, 20) i`)
  peer.answer = (request, response) => {
    const { input } = JSON.parse(request.body)
    const data = input.map((text: string, index: number) => ({ index, embedding: [text === 'huge' ? 1e39 : 1] }))
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ data }))
  }
  await keep(api, asked)
  await eventually(async () => {
    const [one] = await kept(api)
    assert.deepEqual([one.status, one.embedded, one.last_error], ['following', 19, null])
    assert.ok(one.refused >= 1)
  })
  assert.equal(await missing(api), 1)
})

test('a trigger that clears the vector again does not make it be asked for without end', async () => {
  const api = await startServer({ config: remote })
  await api.sql(`create table notes (id int primary key, title text, body text, meaning real[]);
    create function clear() returns trigger language plpgsql as 'begin new.meaning := null; return new; end';
    create trigger clear before update on notes for each row when (new.title like 'clear%') execute function clear()`)
  let texts = 0
  peer.answer = (request, response) => {
    texts += JSON.parse(request.body).input.filter((text: string) => text.startsWith('clear')).length
    vectors(request, response)
  }
  await keep(api, asked)
  await eventually(async () => assert.equal((await kept(api))[0].status, 'following'))
  await api.sql(`insert into notes values (1, 'clear me')`)
  await eventually(async () => assert.equal(texts, 1))
  // Rows written later are embedded later: what the write of the vector left in the log has been read by then.
  for (let id = 2; id <= 4; id++) {
    await api.sql(`insert into notes values (${id}, 'kept')`)
    await eventually(async () => assert.notEqual(await vectorOf(api, id), null))
  }
  assert.equal(texts, 1)
  // The operator's own write of such a row is worth another try.
  await api.sql(`update notes set body = body where id = 1`)
  await eventually(async () => assert.equal(texts, 2))
})

test('a provider that is away and a server that is killed lose nothing', async () => {
  const first = await spawnServer({ config: remote })
  peer.answer = (_, response) => response.writeHead(503).end('{}')
  await first.sql(`create table notes (id int primary key, title text, body text, meaning real[]);
    insert into notes select i, 'note ' || i from generate_series(1, 200) i`)
  await keep(first, asked)
  await eventually(async () => assert.equal((await kept(first))[0].last_error, 'embedding provider failed'))
  // It dies in the middle of the pass.
  let answered = 0
  peer.answer = (request, response) => {
    if (++answered === 3) void first.kill()
    else if (answered < 3) vectors(request, response)
  }
  await eventually(async () => assert.ok(answered >= 3))
  await first.sql(`insert into notes values (1000, 'while nobody was there')`)
  peer.answer = vectors
  const second = await startServer({ on: first, config: remote })
  await eventually(
    async () => {
      assert.equal(await missing(second), 0)
      assert.equal((await kept(second))[0].status, 'following')
    },
    { seconds: 200 },
  )
  assert.equal(await vectorOf(second, 1000), `{${'while nobody was there'.length},1,2}`)
})
