import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type EventReader, listenTo } from '../../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../../../test/kit/kit.ts'

// The full size, 500 identities and 5,000 writes, is bench/realtime.ts identities.
const IDENTITIES = 40
const WRITES = 300

let api: InProcessServer
let users: SignedUp[]
const pick = <T>(items: readonly T[]): T => items[Math.floor(Math.random() * items.length)] as T

before(async () => {
  api = await startServer({ config: { 'database.max_conns': 20 } })
  await api.sql(`create table cards (id serial primary key, owner uuid, friends uuid[] not null default '{}', n int);
    alter table cards enable row level security;
    create policy see on cards using (owner = nullif(current_setting('svc.user_id', true), '')::uuid
      or nullif(current_setting('svc.user_id', true), '')::uuid = any(friends))`)
  users = await Promise.all(Array.from({ length: IDENTITIES }, (_, i) => api.signUp(`u${i}@x.test`)))
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/cards', { as: 'admin' })).status, 200),
  )
})

test('every identity receives exactly the rows PostgreSQL lets it see', async () => {
  const there = await startServer({ on: api, config: { 'database.max_conns': 20 } })
  const streams = new Map<SignedUp, EventReader>()
  for (const [i, user] of users.entries()) {
    streams.set(user, await listenTo(i % 2 ? api.url : there.url, { token: user.token, query: { tables: 'cards' } }))
  }
  const admin = await api.adminToken()
  for (let i = 0; i < WRITES; i += 20) {
    await Promise.all(
      Array.from({ length: 20 }, (_, k) =>
        (k % 2 ? api : there).call('POST /api/collections/cards', {
          as: admin,
          json: { owner: pick(users).user.id, friends: [pick(users).user.id], n: i + k },
        }),
      ),
    )
  }
  const total = Number((await api.sql('select count(*) from cards'))[0].count)
  assert.equal(total, WRITES)
  for (const [user, stream] of streams) {
    const rows = await api.sql('select id from cards where owner = $1 or $1 = any(friends) order by id', [user.user.id])
    const expected = rows.map(({ id }) => Number(id))
    await eventually(() => assert.equal(stream.changes().length, expected.length))
    assert.deepEqual(
      stream
        .changes()
        .map(({ record }) => record.id)
        .sort((a, b) => a - b),
      expected,
    )
  }

  // Deletes: whoever could see the row is told, nobody else.
  for (const stream of streams.values()) stream.events.length = 0
  const seen = new Map<string, number[]>()
  for (const { user } of users) {
    const rows = await api.sql('select id from cards where owner = $1 or $1 = any(friends) order by id', [user.id])
    seen.set(
      user.id,
      rows.map(({ id }) => Number(id)),
    )
  }
  const ids = (await api.sql('select id from cards')).map(({ id }) => String(id))
  const gone = await api.call('POST /api/collections/cards/batch', {
    as: admin,
    json: { operations: ids.map((id) => ({ method: 'delete', id })) },
  })
  assert.equal(gone.status, 200, gone.text)
  for (const [{ user }, stream] of streams) {
    const expected = seen.get(user.id) ?? []
    await eventually(() => assert.equal(stream.changes().length, expected.length))
    assert.deepEqual(
      stream
        .changes()
        .map(({ record }) => record.id)
        .sort((a, b) => a - b),
      expected,
    )
    assert.ok(stream.changes().every(({ action, record }) => action === 'delete' && Object.keys(record).length === 1))
    stream.close()
  }
  await there.stop()
})
