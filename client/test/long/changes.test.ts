import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { eventually, type SpawnedServer, spawnServer, startServer } from '../../../test/kit/kit.ts'
import type { SocketType } from '../../src/core.ts'
import { createClient, type Options } from '../../src/main.ts'
import { type Database, SCHEMA } from '../schema.ts'
import { startCuttingProxy } from './cutting.ts'

const CHANGES = 10_000
const ROWS = 100
const CUT_EVERY_MS = 300

const ways: Record<string, Options> = {
  'a WebSocket': { WebSocket: WebSocket as unknown as SocketType },
  'a stream': {},
}

for (const [way, options] of Object.entries(ways)) {
  test(`10,000 changes over ${way} that is cut all the time, from servers that are killed: each once, in order`, {
    timeout: 600_000,
  }, async () => {
    const keeper = await startServer()
    await keeper.call('POST /api/admin/sql', { as: 'admin', json: { query: SCHEMA } })
    let server: SpawnedServer = await spawnServer({ on: keeper })
    const proxy = await startCuttingProxy(Number(new URL(server.url).port), 0)
    const listener = createClient<Database>(proxy.url, options)
    await listener.auth.register({ email: 'ana@x.test', password: 'long enough password' })

    const heard = new Map<number, number[]>()
    let count = 0
    let status = ''
    const stop = listener.from('notes').watch({
      onChange({ record }) {
        count++
        const id = Number(record.id)
        heard.set(id, [...(heard.get(id) ?? []), Number(record.views)])
      },
      onReset: () => assert.fail('nothing was too old'),
      onStatus(now) {
        status = now
      },
    })
    await eventually(() => assert.equal(status, 'live'))
    const cutting = setInterval(() => proxy.cut(), CUT_EVERY_MS)
    try {
      const notes = createClient<Database>(keeper.url, { key: await keeper.adminToken() }).from('notes')
      for (let i = 0; i < CHANGES / ROWS; i++) {
        const operations = Array.from({ length: ROWS }, (_, row) =>
          i === 0 ? notes.op.create({ id: row + 1, title: 't' }) : notes.op.update(row + 1, { views: i }),
        )
        await notes.batch(operations)
        if (i % 40 !== 20) continue
        await server.kill('SIGKILL')
        server = await spawnServer({ on: keeper })
        proxy.port = Number(new URL(server.url).port)
      }
      await eventually(() => assert.ok(count >= CHANGES, `${count} heard`), { seconds: 120 })
    } finally {
      clearInterval(cutting)
      stop()
    }
    assert.deepEqual([count, heard.size], [CHANGES, ROWS])
    const expected = Array.from({ length: CHANGES / ROWS }, (_, i) => i)
    for (const views of heard.values()) assert.deepEqual(views, expected)
  })
}

for (const [way, options] of Object.entries(ways)) {
  test(`${way} that died without a word is noticed within a minute, and nothing is missed`, {
    timeout: 120_000,
  }, async () => {
    const api = await startServer()
    await api.call('POST /api/admin/sql', { as: 'admin', json: { query: SCHEMA } })
    const proxy = await startCuttingProxy(Number(new URL(api.url).port), 0)
    const listener = createClient<Database>(proxy.url, options)
    await listener.auth.register({ email: 'ana@x.test', password: 'long enough password' })
    const heard: unknown[] = []
    let status = ''
    const stop = listener.from('notes').watch({
      onChange: ({ record }) => void heard.push(record.title),
      onStatus(now) {
        status = now
      },
    })
    try {
      await eventually(() => assert.equal(status, 'live'))
      proxy.freeze()
      await createClient<Database>(api.url).from('notes').create({ title: 'unheard' })
      await eventually(() => assert.deepEqual(heard, ['unheard']), { seconds: 62 })
    } finally {
      stop()
    }
  })
}
