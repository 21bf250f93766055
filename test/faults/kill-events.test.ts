import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { startReceiver } from '../fakes/receiver.ts'
import { startPrivateCluster } from '../kit/cluster.ts'
import { type EventReader, listenTo } from '../kit/event-stream.ts'
import { freePort } from '../kit/free-port.ts'
import { eventually, type SpawnedServer, spawnServer } from '../kit/kit.ts'
import { isLong, ROUNDS } from './rounds.ts'

/** In each round, of each server and of PostgreSQL. */
const KILLS = 3 * ROUNDS
/** Between two kills; in the long version there is time to write at full speed. */
const pause = (): number => (isLong ? 2000 + Math.random() * 2000 : 500 + Math.random() * 500)
const WRITERS = 32
const CONFIG = { 'auth.enabled': false, 'webhooks.retry_delays': ['1s', '1s', '2s', '2s', '2s', '5s'].join(',') }

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Reads until told to stop, on whichever server answers, resuming from its last id. */
function subscriber(servers: readonly { url: string }[]) {
  const events = new Map<string, { n: number }>()
  const resets: string[] = []
  const doubles: string[] = []
  let lastId: string | undefined
  let stopped = false
  let current: EventReader | undefined
  const take = (): void => {
    for (const { event, id, data } of current?.events.splice(0) ?? []) {
      if (event === 'reset') resets.push(id)
      if (event === 'message') {
        const known = events.get(id)
        if (known && known.n !== data.record.n) doubles.push(id)
        events.set(id, data.record)
      }
      if (id !== '') lastId = id
    }
  }
  const done = (async () => {
    for (let turn = 0; !stopped; turn++) {
      const { url } = servers[turn % servers.length] as { url: string }
      try {
        current = await listenTo(url, {
          query: { tables: 'events', ...(lastId !== undefined && { lastEventId: lastId }) },
        })
        while (!current.closed && !stopped) {
          take()
          await sleep(20)
        }
        take()
      } catch {
        await sleep(50)
      }
    }
    current?.close()
  })()
  return {
    /** What the last stream said, for a failure. */
    said: () => `${current?.status} ${current?.text()}`,
    isReady: () => lastId !== undefined,
    events,
    resets,
    doubles,
    stop: async () => {
      stopped = true
      await done
    },
  }
}

test('kill -9 of servers and of PostgreSQL loses no event and invents none', {
  timeout: 280_000 * ROUNDS,
}, async (t) => {
  // A cluster of its own, which waits for the disk as in real life.
  const cluster = await startPrivateCluster()
  const on = { databaseUrl: cluster.url }
  const ports = [await freePort(), await freePort()]
  const first = await spawnServer({ port: ports[0] as number, on, config: CONFIG })
  const servers: SpawnedServer[] = [first, await spawnServer({ port: ports[1] as number, on, config: CONFIG })]
  await first.sql('create table events (n int primary key); grant all on events to svc_anon')
  await eventually(async () => {
    for (const { call } of servers) assert.equal((await call('GET /api/collections/events')).status, 200)
  })
  const sink = await startReceiver((_request, response) => {
    // Sometimes a receiver is slow, so that a kill hits a delivery in flight.
    setTimeout(() => response.writeHead(204).end(), Math.random() < 0.02 ? 500 : 0)
  })
  await first.call('POST /api/webhooks', { as: 'admin', json: { url: sink.url, tables: ['events'] } })
  const readers = [subscriber(servers), subscriber([...servers].reverse())]
  const acknowledged = new Set<number>()
  let next = 0
  let writing = true
  t.after(async () => {
    writing = false
    for (const { stop } of readers) await stop()
    await sink.close()
  })
  await eventually(() =>
    assert.ok(
      readers.every(({ isReady }) => isReady()),
      readers.map(({ said }) => said()).join('; '),
    ),
  )
  const writer = async (worker: number): Promise<void> => {
    while (writing) {
      const n = next++
      const { call } = servers[(worker + n) % 2] as SpawnedServer
      try {
        // Every fifth is a batch that fails after its first row: no reader may get it.
        if (n % 5 === 4) {
          await call('POST /api/collections/events/batch', {
            json: {
              operations: [
                { method: 'create', body: { n: 1_000_000 + n } },
                { method: 'delete', id: '-1' },
              ],
            },
          })
        } else if ((await call('POST /api/collections/events', { json: { n } })).status === 201) acknowledged.add(n)
      } catch {
        await sleep(20)
      }
      await sleep(5)
    }
  }
  const begun = Date.now()
  const writers = Array.from({ length: WRITERS }, (_, worker) => writer(worker))
  let kills = 0
  while (kills < KILLS) {
    await sleep(pause())
    const victim = kills++ % 3
    if (victim === 2) cluster.kill()
    else {
      await (servers[victim] as SpawnedServer).kill('SIGKILL')
      servers[victim] = await spawnServer({ port: ports[victim] as number, on, config: CONFIG })
    }
  }
  const sofar = acknowledged.size
  await eventually(() => assert.ok(acknowledged.size > sofar + WRITERS, 'writes go on after the last kill'))
  writing = false
  await Promise.all(writers)
  const seconds = (Date.now() - begun) / 1000
  t.diagnostic(
    `${kills} kills in ${seconds.toFixed()} s, ${(acknowledged.size / seconds).toFixed()} writes/s acknowledged`,
  )

  // The last victim may be PostgreSQL, which takes a moment to come back.
  const client = await eventually(() => openConnection({ url: cluster.url }))
  const committed = new Set((await client.query('select n from events')).rows.map(({ n }) => Number(n)))
  await client.end()
  assert.ok(acknowledged.size > 20)
  for (const n of acknowledged) assert.ok(committed.has(n), `acknowledged ${n} is lost`)
  const missing = (seen: Set<number>): number[] => [...committed].filter((n) => !seen.has(n))
  for (const { events, resets, doubles } of readers) {
    await eventually(() => assert.deepEqual(missing(new Set([...events.values()].map(({ n }) => n))), []))
    assert.deepEqual(
      [...events.values()].filter(({ n }) => !committed.has(n)),
      [],
    )
    assert.equal(events.size, committed.size, 'one change has two ids')
    assert.deepEqual([resets, doubles], [[], []])
  }
  const told = new Set<number>()
  let read = 0
  const delivered = (): Set<number> => {
    for (const { body } of sink.received.slice(read)) told.add(JSON.parse(body).record.n)
    read = sink.received.length
    return told
  }
  // A killed process keeps its leases for a quarter of a minute, and a long run leaves a backlog.
  await eventually(() => assert.deepEqual(missing(delivered()).length, 0), { seconds: 120 * ROUNDS })
  assert.deepEqual(
    [...delivered()].filter((n) => !committed.has(n)),
    [],
  )
  const ids = new Map<number, string>()
  for (const { headers, body } of sink.received) {
    const { n } = JSON.parse(body).record as { n: number }
    assert.equal(headers['webhook-id'], ids.get(n) ?? headers['webhook-id'], 'a repeat has another id')
    ids.set(n, String(headers['webhook-id']))
  }
})
