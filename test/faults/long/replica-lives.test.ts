import assert from 'node:assert/strict'
import { connect, createServer, type Socket } from 'node:net'
import { before, test } from 'node:test'
import { atEnd } from '../../kit/at-end.ts'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../kit/kit.ts'
import { caughtUp, type Node, startReplicated, urlOf } from '../../kit/replicated.ts'

let primary: Node
let near: Node
let late: Node
let api: InProcessServer
let other: InProcessServer
let ann: SignedUp
/** What stands at the address of the one replica, which restarts as the other. */
let behind: { to: Node; restartAs(node: Node): void; url: string }

before(async () => {
  ;[primary, near, late] = (await startReplicated(3)) as [Node, Node, Node]
  behind = await restartable(near)
  const config = { 'database.url': primary.url, 'database.acquire_timeout': 60 }
  api = await startServer({ config: { ...config, 'database.replica_urls': [behind.url] } })
  await primary.sql(`
    create table notes (id int primary key, title text);
    create view noted as select id, inet_server_port() as port from notes`)
  other = await startServer({ config: { ...config, 'database.replica_urls': [near.url, late.url] } })
  ann = await api.signUp('ann@x.test')
})

/** A server at one address; `restartAs` ends every connection, as a crash does, and another one is there at once. */
async function restartable(first: Node): Promise<typeof behind> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(target.to.port, '127.0.0.1')
    client.pipe(upstream).pipe(client)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {}).once('close', () => [client, upstream].map((one) => one.destroy()))
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  assert.ok(address && typeof address === 'object')
  const target = {
    to: first,
    restartAs(node: Node) {
      target.to = node
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    },
    url: `postgres://postgres@127.0.0.1:${address.port}/postgres`,
  }
  atEnd(() => {
    target.restartAs(first)
    server.close()
  })
  return target
}

let last = 0
const write = async (server: InProcessServer): Promise<{ id: number; position: string }> => {
  const id = ++last
  const { status, headers } = await server.call('POST /api/collections/notes', {
    as: ann.token,
    json: { id, title: 'n' },
  })
  assert.equal(status, 201)
  return { id, position: headers.get('svc-position') ?? '' }
}
/** The port of the server that answered; undefined when it does not have the row. */
const readFrom = async (server: InProcessServer, id: number, position = ''): Promise<number | undefined> => {
  const headers = { 'svc-position': position }
  const path = `GET /api/collections/noted?filter=${encodeURIComponent(`id=${id}`)}&skipTotal=true` as const
  const { status, body } = await server.call(path, { as: ann.token, headers })
  assert.equal(status, 200)
  return body.items[0]?.port
}
const readsOn = (server: InProcessServer, node: Node, id: number) =>
  eventually(async () => assert.equal(await readFrom(server, id), node.port))

test('a replica that restarts further back than it was answers nothing that is older than the own writes', async () => {
  for (let round = 0; round < 20; round++) {
    behind.restartAs(near)
    await caughtUp(primary, late)
    await late.sql('select pg_wal_replay_pause()')
    const { id, position } = await write(api)
    await readsOn(api, near, id)
    // Reads that are under way, and those of the moment after, with the look at the replica at any point of its pause.
    const reads = Array.from({ length: 4 }, () => readFrom(api, id, position))
    behind.restartAs(late)
    for (let i = 0; i < 20; i++) reads.push(readFrom(api, id), readFrom(api, id, position))
    for (const port of await Promise.all(reads)) assert.ok(port, `round ${round}: read stale`)
    for (let i = 0; i < 30; i++) assert.ok(await readFrom(api, id), `round ${round}: read stale`)
    await late.sql('select pg_wal_replay_resume()')
  }
  behind.restartAs(near)
})

test('of two replicas the late one is passed by, forgotten writes are there before it is used again', async () => {
  const used = new Set<number>()
  const both = await write(other)
  await eventually(async () => {
    used.add((await readFrom(other, both.id)) ?? 0)
    assert.ok(used.has(near.port) && used.has(late.port), 'both are in use')
  })
  for (let round = 0; round < 20; round++) {
    await late.sql('select pg_wal_replay_pause()')
    for (let i = 0; i < 25; i++) {
      const { id, position } = await write(other)
      const ports = await Promise.all([readFrom(other, id), readFrom(other, id, position), readFrom(other, id)])
      for (const port of ports) {
        assert.ok(port, `write ${id} was read stale`)
        assert.notEqual(port, late.port)
      }
    }
    // All of it is replayed by the one in use, so the process has forgotten who wrote it.
    await readsOn(other, near, last)
    await eventually(() => late.sql('select pg_wal_replay_resume()'))
    for (let i = 0; i < 25; i++) {
      const { id } = await write(other)
      assert.ok(await readFrom(other, id), `write ${id} was read stale`)
      assert.ok(await readFrom(other, last), `write ${last} was read stale`)
    }
    await readsOn(other, late, last)
  }
})

test('a primary that hangs makes nothing stale, nor does a position of another process', async () => {
  const { id, position } = await write(api)
  await readsOn(other, late, id)
  primary.signalAll('SIGSTOP')
  // What the replicas have they serve, as long as the primary is not known to be further.
  const hung = Promise.all(Array.from({ length: 10 }, () => readFrom(other, id, position)))
  const answers = await Promise.all(Array.from({ length: 10 }, () => readFrom(other, id)))
  primary.signalAll('SIGCONT')
  for (const port of [...answers, ...(await hung)]) assert.ok(port, 'read stale')
  for (let i = 0; i < 100; i++) {
    const made = await write(api)
    assert.ok(await readFrom(other, made.id, made.position), `write ${made.id} was read stale`)
  }
})

test('a replica of the primary that was left is not read, though its log is longer', async () => {
  const [old, next, replica] = (await startReplicated(3)) as [Node, Node, Node]
  const config = {
    'database.url': urlOf([old, next]),
    'database.replica_urls': [replica.url],
    'database.acquire_timeout': 60,
  }
  const server = await startServer({ config })
  await old.sql(`
    create table notes (id int primary key, title text);
    create view noted as select id, inet_server_port() as port from notes`)
  ann = await server.signUp('ann@x.test')
  const first = await write(server)
  await readsOn(server, replica, first.id)
  await caughtUp(old, next)
  await next.stop()
  // What the next primary never gets makes the replica further than it.
  await old.sql('create table ballast as select i, repeat(md5(i::text), 30) from generate_series(1, 20000) i')
  await caughtUp(old, replica)
  await old.stop('SIGQUIT')
  await next.start()
  next.promote()
  await eventually(async () => {
    const id = ++last
    const { status } = await server.call('POST /api/collections/notes', { as: ann.token, json: { id, title: 'n' } })
    assert.equal(status, 201)
  })
  for (let i = 0; i < 200; i++) {
    const { id, position } = await write(server)
    assert.deepEqual([await readFrom(server, id), await readFrom(server, id, position)], [next.port, next.port])
    assert.equal(await readFrom(server, first.id, first.position), next.port)
  }
})
