import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freePort } from '../kit/free-port.ts'
import { eventually, type SpawnedServer, spawnServer } from '../kit/kit.ts'
import { isLong } from './rounds.ts'
import { listener } from './socket-listener.ts'

const [SOCKETS, SECONDS, WRITES_PER_SECOND] = isLong ? ([300, 20, 400] as const) : ([40, 2, 100] as const)
const CONFIG = { 'auth.enabled': false }

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

test('kill -9 of one of two servers: every WebSocket resumes by its last id and misses nothing', {
  timeout: 280_000,
}, async (t) => {
  const ports = [await freePort(), await freePort()] as const
  const stays = await spawnServer({ port: ports[0], config: CONFIG })
  const dies: SpawnedServer = await spawnServer({ port: ports[1], on: stays, config: CONFIG })
  await stays.sql('create table events (n int primary key); grant all on events to svc_anon')
  await eventually(async () => {
    for (const { call } of [stays, dies]) assert.equal((await call('GET /api/collections/events')).status, 200)
  })
  const listeners = Array.from({ length: SOCKETS }, (_, i) => listener([stays.url, dies.url], i))
  let writing = true
  t.after(async () => {
    writing = false
    await Promise.all(listeners.map(({ stop }) => stop()))
  })
  await eventually(() => assert.ok(listeners.every(({ isReady }) => isReady())))

  const acknowledged = new Set<number>()
  let next = 0
  const begun = Date.now()
  const writers = Array.from({ length: 64 }, async (_, worker) => {
    while (writing) {
      const n = next++
      const due = begun + (n * 1000) / WRITES_PER_SECOND
      if (due > Date.now()) await sleep(due - Date.now())
      const { call } = worker % 2 === 0 || dies.child.signalCode ? stays : dies
      try {
        if ((await call('POST /api/collections/events', { json: { n } })).status === 201) acknowledged.add(n)
      } catch {
        await sleep(50)
      }
    }
  })
  await sleep((SECONDS * 1000) / 2)
  await dies.kill('SIGKILL')
  await sleep((SECONDS * 1000) / 2)
  writing = false
  await Promise.all(writers)
  const committed = (await stays.sql('select n from events')).map(({ n }) => Number(n)).sort((a, b) => a - b)
  const rate = Math.round((committed.length * 1000) / (Date.now() - begun))
  t.diagnostic(`${SOCKETS} WebSockets, ${committed.length} writes, ${rate} a second`)
  const kept = new Set(committed)
  for (const n of acknowledged) assert.ok(kept.has(n), `acknowledged ${n} is lost`)
  for (const { heard, resets } of listeners) {
    await eventually(() => assert.equal(heard.length, committed.length))
    assert.deepEqual(
      heard.toSorted((a, b) => a - b),
      committed,
    )
    assert.equal(resets(), 0)
  }
})
