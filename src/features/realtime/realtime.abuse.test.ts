import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { Flight } from '../../db/protocol/flight.ts'

test('a row that its policy hides is told to nobody, whoever wrote it and whatever the writer could read', async () => {
  const api = await startServer()
  await api.sql(`
    create table diaries (id int primary key, owner text, visibility text default 'private', body text);
    alter table diaries enable row level security;
    create policy mine on diaries using (owner = current_setting('svc.user_id', true) or visibility is distinct from 'private');
    revoke select on diaries from svc_authenticated;
    grant select (id, owner, body) on diaries to svc_authenticated;
    create table marks (id int primary key);
  `)
  const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/diaries', { as: ana.token })).status, 200),
  )
  const [hers, his] = [await listenTo(api.url, { token: ana.token }), await listenTo(api.url, { token: bo.token })]
  const start = his.lastId()
  const json = { id: 1, owner: ana.user.id, body: 'dear diary' }
  assert.equal((await api.call('POST /api/collections/diaries', { as: ana.token, json })).status, 201)
  await hers.until(({ data }) => data?.action === 'create')
  assert.equal((await api.call('PATCH /api/collections/diaries/1', { as: ana.token, json: { body: 'x' } })).status, 200)
  assert.equal((await api.call('DELETE /api/collections/diaries/1', { as: ana.token })).status, 204)
  // An image that lacks what the policy reads, as a former version of the table may have left it.
  await api.sql(`insert into svc.change_log (shape, table_oid, action, key, old_record)
    select k.id, 'diaries'::regclass, 'd', '2', '{"id": 2, "owner": "${ana.user.id}"}' from svc.keep_shape('diaries'::regclass) k`)
  await api.call('POST /api/collections/marks', { as: 'admin', json: { id: 1 } })
  for (const stream of [hers, his]) await stream.until(({ data }) => data?.table === 'marks')
  const resumed = await listenTo(api.url, { token: bo.token, query: { lastEventId: start } })
  await resumed.until(({ data }) => data?.table === 'marks')
  assert.deepEqual(
    hers.changes().map(({ action, table }) => [action, table]),
    [
      ['create', 'diaries'],
      ['update', 'diaries'],
      ['delete', 'diaries'],
      ['create', 'marks'],
    ],
  )
  for (const stream of [his, resumed])
    assert.deepEqual(
      stream.changes().map(({ table }) => table),
      ['marks'],
    )
  for (const stream of [hers, his, resumed]) stream.close()
})

/** LARGE_ROWS=340,900: as many rows of as many kB as once ended realtime for a whole process. */
const [ROWS = 40, KILOBYTES = 290] = (process.env['LARGE_ROWS'] ?? '').split(',').filter(Boolean).map(Number)
/** What is judged at once ends with the page that fills 4 MiB, and has each row as it was, too. All rows are more. */
const MOST_BYTES = 2 * (4 * 2 ** 20 + 1_000_000)

test('many large rows changed at once end no stream, and no page of the log outgrows its measure', async (t) => {
  const api = await startServer({ config: { 'auth.enabled': false, 'realtime.buffer_size': 1_000_000_000 } })
  await api.sql(`
    create table large (id int primary key, n int default 0, body text);
    alter table large enable row level security;
    create policy all_rows on large using (n >= 0);
    insert into large select i, 0, (select string_agg(md5(k::text), '') from generate_series(1, ${Math.round((KILOBYTES * 1000) / 32)}) k)
      from generate_series(1, ${ROWS}) i;
    select svc.watch('large');
  `)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/large/1?fields=id')).status, 200))
  const stream = await listenTo(api.url, { query: { tables: 'large', filter: 'n>0' } })
  let count = 0
  const seen = (): number => {
    count += stream.changes().length
    stream.events.length = 0
    return count
  }
  const ended = t.mock.method(Flight.prototype, 'end')
  await api.sql('update large set n = 1')
  await eventually(() => assert.equal(seen(), ROWS), { seconds: ROWS * 6 })
  await api.sql('update large set n = 2 where id = 7')
  await eventually(() => assert.equal(seen(), ROWS + 1))
  assert.equal(stream.closed, false)
  const arrived = ended.mock.calls.map((call) => (call.this as Flight).bytes)
  assert.ok(
    arrived.some((bytes) => bytes > KILOBYTES * 1000),
    'the pages were read',
  )
  assert.ok(Math.max(...arrived) < MOST_BYTES, `one of ${Math.max(...arrived)} bytes`)
  stream.close()
})

test('PostgreSQL is asked nothing about tables that no stream listens to', async (t) => {
  const api = await startServer({ config: { 'auth.enabled': false } })
  await api.sql('create table heard (id int primary key); create table unheard (id int primary key)')
  await eventually(async () => assert.equal((await api.call('GET /api/collections/unheard')).status, 200))
  const stream = await listenTo(api.url, { query: { tables: 'heard' } })
  const ended = t.mock.method(Flight.prototype, 'end')
  for (let id = 1; id <= 5; id++) await api.call('POST /api/collections/unheard', { json: { id } })
  await api.call('POST /api/collections/heard', { json: { id: 1 } })
  await eventually(() => assert.equal(stream.changes().length, 1))
  const surveyed = ended.mock.calls
    .map((call) => (call.this as Flight).plan.steps.at(-1))
    .filter((step) => step?.text.includes('json_object_agg(c.oid'))
    .map((step) => step?.values[0])
  const [{ oid } = { oid: '' }] = await api.sql(`select 'heard'::regclass::oid`)
  assert.deepEqual(new Set(surveyed), new Set([`{"${oid}"}`]))
  stream.close()
})

test('a dear filter of one user delays nobody else, and ends with a clear error', async (t) => {
  const api = await startServer()
  await api.sql('create table lines (id int primary key, body text)')
  const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/lines', { as: ana.token })).status, 200),
  )
  const listen = (token: string, filter?: string) =>
    listenTo(api.url, { token, query: { tables: 'lines', ...(filter !== undefined && { filter }) } })
  // Compared at every place of the text, up to its last letter.
  const dear = (n: number) => `body~'%${'a'.repeat(4_000)}${n}%'`
  const costly = await Promise.all([1, 2, 3, 4].map((n) => listen(ana.token, dear(n))))
  const [plain, filtered] = [await listen(bo.token), await listen(bo.token, 'id>0')]
  const ended = t.mock.method(Flight.prototype, 'end')
  let id = 0
  const write = async (): Promise<number> => {
    id++
    const body = 'a'.repeat(100_000)
    assert.equal((await api.call('POST /api/collections/lines', { as: 'admin', json: { id, body } })).status, 201)
    return id
  }
  for (let i = 0; i < 10; i++) await write()
  const last = await write()
  for (const stream of [plain, filtered]) await stream.until(({ data }) => data?.record?.id === last)
  for (const stream of costly) {
    const { data } = await stream.until(({ event }) => event === 'error')
    assert.deepEqual(data, { code: 429, error: 'filter_too_slow', message: 'filter takes too long' })
    await stream.ended()
  }
  assert.deepEqual([plain.closed, filtered.closed], [false, false])
  assert.equal((await listen(ana.token, dear(1))).status, 429)
  // The time limit is that of a user, not of each filter.
  const cutOff = ended.mock.calls.filter(({ this: flight, arguments: [error] }) => {
    const text = (flight as Flight).plan.steps.at(-1)?.text
    return error && 'code' in error && error.code === '57014' && text?.includes('~~')
  })
  assert.ok(cutOff.length <= 1, `${cutOff.length} statements ran until their time limit`)
  plain.close()
  filtered.close()
})

test('a stream says once that its token is about to expire', async () => {
  const api = await startServer({ config: { 'auth.token_duration': 61 } })
  await api.sql('create table open (id int primary key)')
  const { token } = await api.signUp('ana@x.test')
  const { exp } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { exp: number }
  const stream = await listenTo(api.url, { token })
  const { data } = await stream.until(({ event }) => event === 'expiring')
  assert.deepEqual(data, { expires_at: exp })
  // One that is opened with less than a minute left hears it right after it is connected.
  const late = await listenTo(api.url, { token })
  await late.until(({ event }) => event === 'expiring')
  assert.deepEqual(
    late.events.slice(0, 2).map(({ event }) => event),
    ['connected', 'expiring'],
  )
  await eventually(async () => assert.equal((await api.call('GET /api/collections/open', { as: token })).status, 200))
  await api.call('POST /api/collections/open', { as: token, json: { id: 1 } })
  for (const one of [stream, late]) await one.until(({ event }) => event === 'message')
  for (const one of [stream, late]) assert.equal(one.events.filter(({ event }) => event === 'expiring').length, 1)
  stream.close()
  late.close()
})
