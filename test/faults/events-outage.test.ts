import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listenTo } from '../kit/event-stream.ts'
import { eventually, startServer } from '../kit/kit.ts'
import { startProxy } from '../kit/proxy.ts'

test('streams outlive an outage of the database and miss nothing, with and without row security', async () => {
  const direct = await startServer()
  const proxy = await startProxy(direct.databaseUrl)
  const shaky = await startServer({ on: direct, config: { 'database.url': proxy.url } })
  await direct.sql(`create table plain (n int primary key);
    create table own (n int primary key, owner uuid); alter table own enable row level security;
    create policy own on own using (owner = nullif(current_setting('svc.user_id', true), '')::uuid)`)
  const { token, user } = await direct.signUp('ana@x.test')
  await eventually(async () => assert.equal((await shaky.call('GET /api/collections/own', { as: token })).status, 200))
  const stream = await listenTo(shaky.url, { token })
  await stream.until(({ event }) => event === 'connected')

  const written: number[] = []
  const write = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      const n = written.length
      await direct.call('POST /api/collections/plain', { as: 'admin', json: { n } })
      await direct.call('POST /api/collections/own', { as: 'admin', json: { n, owner: user.id } })
      written.push(n)
    }
  }
  await write(20)
  for (const fault of ['refuse', 'reset', 'blackhole'] as const) {
    await proxy.set(fault)
    proxy.cut()
    await write(20)
    await proxy.set('pass')
    if (fault === 'blackhole') proxy.cut()
    await write(20)
  }
  const told = (table: string): number[] =>
    stream.changes().flatMap((one) => (one.table === table ? [one.record.n] : []))
  await eventually(() => {
    assert.deepEqual(told('plain'), written)
    assert.deepEqual(told('own'), written)
  })
  assert.equal(stream.closed, false)
  stream.close()
})

test('when the log loses its place, as after a failover, streams are told to start anew', async () => {
  const direct = await startServer()
  const proxy = await startProxy(direct.databaseUrl)
  const shaky = await startServer({ on: direct, config: { 'database.url': proxy.url, 'auth.enabled': false } })
  await direct.sql('create table plain (n int primary key); grant all on plain to svc_anon')
  await eventually(async () => assert.equal((await shaky.call('GET /api/collections/plain')).status, 200))
  const stream = await listenTo(shaky.url)
  await direct.call('POST /api/collections/plain', { as: 'admin', json: { n: 1 } })
  await stream.until(({ event }) => event === 'message')
  await proxy.set('refuse')
  proxy.cut()
  // The other database never heard of what this one had told already.
  await direct.sql('delete from svc.change_log')
  await proxy.set('pass')
  const reset = await stream.until(({ event }) => event === 'reset')
  assert.equal(reset.data.position, reset.id)
  await direct.call('POST /api/collections/plain', { as: 'admin', json: { n: 2 } })
  await stream.until(({ data }) => data.record?.n === 2)
  stream.close()
})
