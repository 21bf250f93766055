import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../protocol/driver.ts'

let api: InProcessServer
before(async () => {
  api = await startServer({ config: { 'auth.enabled': false } })
  await api.sql(`
    create table rows (id int primary key, v text);
    create table other (id int primary key);
    insert into rows select n, 'start' from generate_series(1, 50) n;
    select svc.watch('rows');
  `)
})

test('a transaction that began early and wrote late is told after the one that committed first', async () => {
  const stream = await listenTo(api.url, { query: { tables: 'rows' } })
  const [early, holder] = [
    await openConnection({ url: api.databaseUrl }),
    await openConnection({ url: api.databaseUrl }),
  ]
  await early.query('begin; select pg_current_xact_id()')
  // A third one in between keeps the two on different sides of the oldest running transaction.
  await holder.query('begin; select pg_current_xact_id()')
  assert.equal((await api.call('PATCH /api/collections/rows/1', { json: { v: 'first' } })).status, 200)
  await early.query(`update rows set v = 'second' where id = 1`)
  await early.query('commit')
  assert.equal((await api.call('PATCH /api/collections/rows/2', { json: { v: 'marker' } })).status, 200)
  await holder.query('commit')
  await stream.until(({ data }) => data?.record?.v === 'marker')
  assert.deepEqual(
    stream.changes().map(({ record }) => record.v),
    ['first', 'second', 'marker'],
  )
  // A follower that resumes from any of the positions gets the rest, in the same order.
  const [first] = stream.events.filter(({ event }) => event === 'message')
  const again = await listenTo(api.url, { query: { tables: 'rows', lastEventId: first?.id ?? '' } })
  await again.until(({ data }) => data?.record?.v === 'marker')
  assert.deepEqual(
    again.changes().map(({ record }) => record.v),
    ['second', 'marker'],
  )
  await Promise.all([early.end(), holder.end()])
  stream.close()
  again.close()
})

test('under many writers the last word about every row is the row', async () => {
  const stream = await listenTo(api.url, { query: { tables: 'rows' } })
  const clients = await Promise.all(Array.from({ length: 6 }, () => openConnection({ url: api.databaseUrl })))
  await Promise.all(
    clients.map(async (client, c) => {
      for (let i = 0; i < 60; i++) {
        await client.query('begin; select pg_current_xact_id()')
        if (i % 3 === 0) await client.query(`insert into other values (${c * 1000 + i})`)
        // Each transaction changes one row, so that they can wait but never for each other in a circle.
        await client.query(`update rows set v = 'c${c}-${i}' where id = ${1 + ((i * 7 + c) % 5)}`)
        await client.query('commit')
      }
    }),
  )
  await api.call('PATCH /api/collections/rows/50', { json: { v: 'over' } })
  await stream.until(({ data }) => data?.record?.v === 'over')
  const told = new Map(stream.changes().map(({ record }) => [record.id, record.v]))
  const rows = await api.sql('select id, v from rows where id <= 5')
  for (const { id, v } of rows) assert.equal(told.get(Number(id)), v, `row ${id}`)
  assert.equal(stream.changes().length, 361)
  await Promise.all(clients.map((client) => client.end()))
  stream.close()
})

test('no acknowledged write is logged by nobody, or twice, while a table is watched, unwatched and disabled', async () => {
  await api.sql('create table restless (id int primary key)')
  const acknowledged: number[] = []
  let isOver = false
  const write = async (from: number): Promise<void> => {
    for (let id = from; !isOver; id++) {
      const { status } = await api.call('POST /api/collections/restless', { json: { id } })
      if (status === 201) acknowledged.push(id)
    }
  }
  const writers = [write(1), write(100_000), write(200_000)]
  for (let i = 0; i < 12 || acknowledged.length < 100; i++) {
    await api.sql(`select svc.watch('restless')`)
    await api.sql(`alter table restless disable trigger svc_watch`)
    await api.sql(`alter table restless enable trigger svc_watch`)
    await api.sql(`select svc.unwatch('restless')`)
  }
  isOver = true
  await Promise.all(writers)
  const [row] = await api.sql(`
    select count(*)::int as logged, count(distinct pk)::int as rows from svc.changes where table_name = 'restless'`)
  const all = String(acknowledged.length)
  assert.deepEqual(row, { logged: all, rows: all })
})
