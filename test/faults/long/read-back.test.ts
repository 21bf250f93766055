import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../kit/kit.ts'
import { type Node, startReplicated } from '../../kit/replicated.ts'

const WRITES = Number(process.env['SVC_WRITES'] ?? 100_000)
const CLIENTS = 8

test(`${WRITES} writes, each read back at once: none is stale, and a replica that fails costs no error`, async () => {
  const [primary, standby] = (await startReplicated(2)) as [Node, Node]
  const config = {
    'database.url': primary.url,
    'database.replica_urls': [standby.url],
    'database.acquire_timeout': 60,
    'rate_limit.register': 'off',
  }
  const servers: [InProcessServer, InProcessServer] = [await startServer({ config }), await startServer({ config })]
  await primary.sql(`
    create table notes (id int primary key, title text);
    create view noted as select id, inet_server_port() as port from notes`)

  const missed: string[] = []
  const answers = new Map<number, number>()
  let next = 0
  const goOn = async (client: number): Promise<void> => {
    const { token } = await servers[0].signUp(`client${client}@x.test`)
    for (let id = next++; id < WRITES; id = next++) {
      const [writer, reader] = id % 2 === 0 ? servers : [servers[1], servers[0]]
      const made = await writer.call('POST /api/collections/notes', { as: token, json: { id, title: 'n' } })
      const headers = { 'svc-position': made.headers.get('svc-position') ?? '' }
      const filter = encodeURIComponent(`id=${id}`)
      const path = `GET /api/collections/noted?filter=${filter}&skipTotal=true` as const
      const read = await reader.call(path, { as: token, headers })
      const port = read.body.items?.[0]?.port
      if (made.status !== 201 || read.status !== 200 || port === undefined) {
        missed.push(`${id}: ${made.status}, ${read.status} ${JSON.stringify(read.body)}`)
      }
      answers.set(port, (answers.get(port) ?? 0) + 1)
    }
  }
  const clients = Promise.all(Array.from({ length: CLIENTS }, (_, client) => goOn(client)))
  const reached = (part: number) =>
    eventually(() => assert.ok(next >= WRITES * part || missed.length > 0), { seconds: 1_800 })
  await reached(0.3)
  await standby.sql('select pg_wal_replay_pause()')
  await reached(0.45) // thousands of writes behind
  // Recovery that goes on may cancel the statement that lets it.
  await eventually(() => standby.sql('select pg_wal_replay_resume()'))
  await reached(0.55)
  standby.signalAll('SIGSTOP')
  await reached(0.6)
  standby.signalAll('SIGCONT')
  await reached(0.7)
  await standby.stop('SIGQUIT')
  await reached(0.75)
  await standby.start()
  await clients
  assert.deepEqual(missed, [])
  const fromReplica = answers.get(standby.port) ?? 0
  assert.ok(fromReplica > WRITES / 100, `the replica answered ${fromReplica} of ${WRITES}`)
})
