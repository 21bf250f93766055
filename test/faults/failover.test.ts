import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openDatabase } from '../../src/db/setup/database.ts'
import { clusterUrl } from '../kit/cluster.ts'
import { listenTo } from '../kit/event-stream.ts'
import { eventually, type InProcessServer, startServer } from '../kit/kit.ts'
import { startProxy } from '../kit/proxy.ts'
import { caughtUp, type Node, startReplicated, urlOf } from '../kit/replicated.ts'

const NOTES = 'create table notes (id int primary key, title text)'

/** Writes numbered rows and reads them, until it is stopped. */
function underLoad(api: InProcessServer) {
  const acknowledged: number[] = []
  const refused: { status: number; body: unknown }[] = []
  const reads = new Map<number, number>()
  let [next, isOver] = [0, false]
  const write = async () => {
    while (!isOver) {
      const id = next++
      const { status, body } = await api.call('POST /api/collections/notes', { json: { id, title: 'n' } })
      if (status === 201) acknowledged.push(id)
      else refused.push({ status, body })
    }
  }
  const read = async () => {
    while (!isOver) {
      const { status } = await api.call('GET /api/collections/notes?limit=1')
      reads.set(status, (reads.get(status) ?? 0) + 1)
    }
  }
  const all = Promise.all([write(), write(), read(), read()])
  return {
    acknowledged,
    refused,
    reads,
    async stop() {
      isOver = true
      await all
    },
  }
}

const idsOn = async (node: Node): Promise<Set<number>> =>
  new Set((await node.sql('select id from notes')).map(({ id }) => Number(id)))

test('the primary dies and its standby is promoted: nothing acknowledged is lost, reads go on, streams are complete', async () => {
  const nodes = await startReplicated(2)
  const [primary, standby] = nodes as [Node, Node]
  await primary.sql(`alter system set synchronous_standby_names = '*'`)
  await primary.sql('select pg_reload_conf()')
  // The standby is the first host: the primary is found by what it says of itself.
  const config = { 'database.url': urlOf([standby, primary]), 'database.acquire_timeout': 60 }
  const api = await startServer({ config })
  await primary.sql(NOTES)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/notes')).status, 200))
  const { durability } = (await api.call('GET /api/admin/status', { as: 'admin' })).body
  assert.equal(durability, 'remote flush')
  const { token } = await api.signUp('ann@x.test')
  const stream = await listenTo(api.url, { token, query: { tables: 'notes' } })
  const load = underLoad(api)
  await eventually(() => assert.ok(load.acknowledged.length > 20, 'writes are under way'))
  await primary.stop('SIGQUIT')
  standby.promote()
  const before = load.acknowledged.length
  await eventually(() => assert.ok(load.acknowledged.length > before + 20, 'the new primary takes writes'))
  await load.stop()

  const kept = await idsOn(standby)
  assert.deepEqual(
    load.acknowledged.filter((id) => !kept.has(id)),
    [],
    'acknowledged and lost',
  )
  assert.deepEqual([...load.reads.keys()], [200], 'reads were flown again')
  for (const { status, body } of load.refused) {
    assert.equal(status, 503)
    assert.equal((body as { data: { outcome: { code: string } } }).data.outcome.code, 'unknown')
  }
  await eventually(() => {
    const told = new Set(stream.changes().map(({ record }) => record.id))
    assert.deepEqual(
      load.acknowledged.filter((id) => !told.has(id)),
      [],
      'acknowledged and not told',
    )
  })
  assert.ok(!stream.events.some(({ event }) => event === 'reset'))
  stream.close()
  assert.equal((await api.call('GET /api/admin/status', { as: 'admin' })).body.durability, 'local')
  assert.ok(api.observations.some(({ message }) => message === 'database primary changed'))
})

test('no primary at the start: it is waited for and said; then one sentence', async () => {
  const nodes = await startReplicated(2)
  const [primary, standby] = nodes as [Node, Node]
  const said: string[] = []
  const open = (waitMs: number) =>
    openDatabase({
      url: urlOf(nodes),
      config: { max_conns: 2, min_conns: 0, acquire_timeout: 5, prepared_statements: true, direct_url: '' },
      api: { schemas: ['public'], statement_timeout: 30 },
      observe: () => {},
      progress: (line) => said.push(line),
      waitMs,
    })
  await (await open(0)).pool.stop()
  await caughtUp(primary, standby)
  await primary.stop()
  said.length = 0
  await assert.rejects(open(600), /^Error: cannot connect to the database: no primary among 2 hosts: [^\n]+$/)
  assert.match(said.join('\n'), /^waiting for a primary of the database: no primary among 2 hosts: [^\n]+$/)
  const waiting = open(60_000)
  standby.promote()
  await (await waiting).pool.stop()
})

test('a write whose answer is lost is 503 with an unknown outcome, and its Idempotency-Key answers it later; reads are flown again', async () => {
  const direct = await startServer()
  await direct.sql(NOTES)
  const proxy = await startProxy(direct.databaseUrl)
  // More connections that rest, and do not notice, than a read is flown again.
  const config = {
    'database.url': proxy.url,
    'database.acquire_timeout': 60,
    'database.min_conns': 20,
    'database.max_conns': 25,
  }
  const api = await startServer({ on: direct, config })
  await eventually(async () => assert.equal((await api.call('GET /api/collections/notes')).status, 200))

  const headers = { 'idempotency-key': 'the-one-and-only-key-of-this-write' }
  const create = () => api.call('POST /api/collections/notes', { json: { id: 1, title: 'n' }, headers })
  const lost = async (work: () => Promise<{ status: number; body: unknown }>) => {
    await proxy.set({ cutAfterBytes: 0 })
    const answer = work()
    await eventually(async () => assert.equal((await api.call('GET /health')).status, 503))
    await proxy.set('pass')
    return answer
  }
  assert.equal((await api.call('POST /api/collections/notes', { json: { id: 0, title: 'n' } })).status, 201)
  const plain = await lost(() => api.call('POST /api/collections/notes', { json: { id: 2, title: 'n' } }))
  assert.equal(plain.status, 503)
  const { error, data } = plain.body as { error: string; data: { outcome: { code: string; message: string } } }
  assert.equal(error, 'database_unavailable')
  assert.deepEqual(Object.keys(data), ['outcome'])
  assert.equal(data.outcome.code, 'unknown')
  assert.match(data.outcome.message, /may be done or not/)
  await eventually(async () => assert.equal((await create()).status, 201))
  assert.equal((await create()).headers.get('idempotency-replayed'), 'true')

  assert.equal((await lost(() => api.call('GET /api/collections/notes'))).status, 200)
})

test('a connection string that asks for a standby is refused', async () => {
  const url = `${await clusterUrl('embedded')}&target_session_attrs=standby`
  await assert.rejects(
    startServer({ config: { 'database.url': url } }),
    /^Error: invalid value for database\.url: target_session_attrs must be any, primary or read-write$/,
  )
})
