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
  await api.sql(`create table notes (id int primary key, title text, data json);
    create table hidden (id int primary key); revoke all on hidden from svc_anon, svc_authenticated;
    create table rooms (id int primary key, org uuid, opens_at timestamptz);
    create table doors (id int primary key);
    create table slow (id int primary key);
    create table timed (id int primary key, opens_at timestamptz);
    create table called (id int primary key);
    create table guests (room int, person uuid);
    create view titles as select title from notes;
    create table parents (id int primary key);
    create table children (id int primary key, parent_id int references parents on delete cascade);
    grant all on notes, rooms, doors, slow, timed, called, titles, parents, children to svc_authenticated;
    alter table rooms enable row level security;
    create policy of_org on rooms for all to svc_authenticated using (org = any(svc.org_ids()));
    alter table timed enable row level security;
    create policy open_now on timed for select to svc_authenticated using (opens_at <= now());
    create function is_guest() returns boolean language sql stable security definer as
      'select exists (select from public.guests where person = svc.uid())';
    alter table called enable row level security;
    create policy guests on called for select to svc_authenticated using (is_guest());
    create function crawl() returns boolean language plpgsql stable as 'begin perform pg_sleep(0.3); return true; end';
    alter table slow enable row level security;
    create policy crawling on slow for select to svc_authenticated using ((select crawl()));
    create policy making on slow for insert to svc_authenticated with check (true);
    insert into notes select n, 'n' || n from generate_series(1, 600) n; insert into called values (1);
    insert into slow values (1)`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/children', { as: ana.token })).status, 200),
  )
})

const talk = ({ token }: { token: string }): Promise<Talker> => talkTo(api.url, { token })
const live = (talker: Talker, collection: string, query: object = {}) => talker.ask({ type: 'live', collection, query })
const idsOf = (talker: Talker, number: number) =>
  liveRows(talker, number).items.map((row) => (row as { id: number }).id)

test('what cannot be kept true is refused by its name, on both ways', async () => {
  const talker = await talk(ana)
  const refused = async (
    query: Record<string, string | number>,
    code: number,
    message: string,
    collection = 'notes',
  ) => {
    const reply = await live(talker, collection, query)
    assert.deepEqual([reply.status, reply.code, reply.message], ['error', code, message])
    const texts = new URLSearchParams(query as Record<string, string>)
    const answer = await api.call(`GET /api/collections/${collection}?live=true&${texts}`, { as: ana.token })
    assert.deepEqual([answer.status, answer.body.message], [code, message])
  }
  for (const name of ['search', 'nearest', 'semantic_query', 'facets', 'as_of']) {
    await refused({ [name]: 'x' }, 400, `live does not go with "${name}"`)
  }
  await refused({ semantic: 'true' }, 400, 'live does not go with "semantic"')
  await refused({ page: 1 }, 400, 'live does not go with "page"')
  await refused({ cursor: '' }, 400, 'live does not go with "cursor"')
  await refused({ sort: 'title.distance(1,2)' }, 400, 'live does not go with "sort"')
  await refused({}, 400, 'live on a view needs "depends"', 'titles')
  await refused({ depends: 'hidden' }, 404, 'collection not found: hidden', 'titles')
  await refused({ depends: 'missing' }, 404, 'collection not found: missing')
  await refused({}, 404, 'collection not found: hidden', 'hidden')
  await refused({ filter: 'nonsense = 1' }, 400, 'invalid filter: unknown column: nonsense')
  await refused(
    { filter: 'id = 12345678901234567890' },
    400,
    'invalid filter: invalid integer value: expected a whole number from -2147483648 to 2147483647',
  )
  assert.equal((await talker.ask({ type: 'live', query: {} })).code, 400)
  assert.equal((await talker.ask({ type: 'live', collection: 'notes', query: { filter: { a: 1 } } })).code, 400)
  talker.close()
})

test('a list has at most 500 rows, and a connection 20 lists', async () => {
  const talker = await talk(ana)
  await live(talker, 'notes', { perPage: 10_000 })
  await eventually(() => assert.equal(liveRows(talker, 1).items.length, 500))
  for (let n = 2; n <= 20; n++) assert.equal((await live(talker, 'notes', { filter: `id = ${n}` })).status, 'ok')
  const refused = await live(talker, 'notes')
  assert.deepEqual([refused.code, refused.message], [400, 'too many live queries'])
  await talker.ask({ type: 'unlive', live: 7 })
  assert.equal((await live(talker, 'notes', { perPage: 1 })).status, 'ok')
  talker.close()
})

test('visitors have no live lists where they have no streams, and a server without realtime has none', async () => {
  const visitor = await talkTo(api.url)
  const reply = await live(visitor, 'notes')
  assert.deepEqual([reply.status, reply.code], ['error', 401])
  visitor.close()
  assert.equal((await api.call('GET /api/collections/notes?live=true')).status, 401)
  // Only a stream takes its token from the URL.
  assert.equal((await api.call('GET /api/collections/notes?token=bad')).status, 200)
  assert.equal((await api.call('GET /api/collections/notes?live=true&token=bad')).status, 401)
  const off = await startServer({ config: { 'realtime.enabled': false }, on: api })
  const answer = await off.call('GET /api/collections/notes?live=true', { as: ana.token })
  assert.deepEqual([answer.status, answer.body.message], [404, 'realtime is not enabled'])
  await off.stop()
})

test('memberships of organisations decide it, though they are not in the log', async () => {
  const talker = await talk(ana)
  const { body: org } = await api.call('POST /api/orgs', { as: bo.token, json: { name: 'Acme' } })
  await api.sql(`insert into rooms values (1, '${org.id}')`)
  await live(talker, 'rooms')
  assert.deepEqual(idsOf(talker, 1), [])
  await api.sql(`insert into svc.members (org_id, user_id, role) values ('${org.id}', '${ana.user.id}', 'member')`)
  await eventually(() => assert.deepEqual(idsOf(talker, 1), [1]))
  await api.call(`DELETE /api/orgs/${org.id}/members/${ana.user.id}`, { as: bo.token })
  await eventually(() => assert.deepEqual(idsOf(talker, 1), []))
  talker.close()
})

test('what a function or the time decides is true within seconds', async () => {
  const talker = await talk(ana)
  await api.sql(`insert into timed values (1, now() + interval '1 second')`)
  await live(talker, 'timed')
  await live(talker, 'called')
  await api.sql(`insert into guests values (1, '${ana.user.id}')`)
  await eventually(() => assert.deepEqual([idsOf(talker, 1), idsOf(talker, 2)], [[1], [1]]))
  talker.close()
})

test('rows that go with their parent leave the list, though only the parent is in the log', async () => {
  const talker = await talk(ana)
  await api.sql(`insert into parents values (1), (2); insert into children values (1, 1), (2, 2)`)
  await live(talker, 'children')
  await api.call('DELETE /api/collections/parents/1', { as: ana.token })
  await eventually(() => assert.deepEqual(idsOf(talker, 1), [2]))
  talker.close()
})

test('who takes long is read less often and is notified; others do not wait for it', async () => {
  const [slow, quick] = [await talk(bo), await talk(ana)]
  await live(slow, 'slow')
  await live(quick, 'notes', { filter: 'id > 1000' })
  const notice = await slow.until(({ type }) => type === 'slow')
  assert.deepEqual(Object.keys(notice).sort(), ['interval', 'live', 'type'])
  assert.ok(notice.interval >= 1_000, `${notice.interval}`)
  for (let id = 2; id <= 6; id++) {
    assert.equal((await api.call('POST /api/collections/slow', { as: bo.token, json: { id } })).status, 201)
  }
  await api.call('POST /api/collections/notes', { as: ana.token, json: { id: 1001 } })
  await quick.until(({ type }) => type === 'diff')
  await eventually(() => assert.deepEqual(idsOf(slow, 1), [1, 2, 3, 4, 5, 6]))
  for (const talker of [slow, quick]) talker.close()
})

test('a stream holds each event on one line, whatever a json column is written like', async () => {
  await api.sql(`insert into notes values (2000, 'x', E'{\\n"a":\\r\\n 1}')`)
  const stream = await listenTo(api.url, {
    path: '/api/collections/notes',
    token: ana.token,
    query: { live: 'true', filter: 'id = 2000' },
  })
  const { data } = await stream.until(({ event }) => event === 'rows')
  assert.deepEqual(data.items, [{ id: 2000, title: 'x', data: { a: 1 } }])
  stream.close()
})

test('a token that was revoked ends its lists', async () => {
  const carl = await api.signUp('carl@x.test')
  const talker = await talk(carl)
  const stream = await listenTo(api.url, {
    path: '/api/collections/notes',
    token: carl.token,
    query: { live: 'true', perPage: '1' },
  })
  await live(talker, 'notes', { perPage: 1 })
  await api.call('POST /api/auth/logout', { as: carl.token, json: { refreshToken: carl.refreshToken } })
  assert.equal(await talker.closed(), 4401)
  await stream.ended()
  assert.equal(stream.events.at(-1)?.event, 'error')
})

test('what is held for a caller is counted, and given back', async () => {
  await api.sql(`create table wide (id text primary key); grant all on wide to svc_authenticated;
    insert into wide select n || repeat('x', 2000) from generate_series(1, 500) n`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/wide', { as: ana.token })).status, 200),
  )
  const talker = await talk(ana)
  let replies = 0
  let reply = { status: 'ok', code: 0, message: '' }
  for (; reply.status === 'ok' && replies < 20; replies++)
    reply = await live(talker, 'wide', { perPage: 500 - replies })
  assert.deepEqual([reply.code, reply.message], [409, 'too much is kept for this caller'])
  talker.close()
  const again = await talk(ana)
  await eventually(async () => assert.equal((await live(again, 'wide', { perPage: 400 })).status, 'ok'))
  again.close()
})

test('a list that is opened while the schema changes is opened', async () => {
  const talker = await talk(ana)
  for (let round = 0; round < 15; round++) {
    const changes = [1, 2, 3].map((part) => api.sql(`create table made_${round}_${part} (id int primary key)`))
    const lists = Array.from({ length: 4 }, (_, i) => live(talker, 'notes', { perPage: 1 + 4 * round + i }))
    await Promise.all(changes)
    for (const { ref, ...reply } of await Promise.all(lists)) {
      assert.equal(reply.status, 'ok', JSON.stringify(reply))
      talker.say({ type: 'unlive', live: reply.live })
    }
  }
  talker.close()
})
