import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../../test/kit/kit.ts'
import { LiveWatcher, LiveWorld } from '../../../../test/kit/live-world.ts'

const WRITES = 40

test('whatever is written by whom, a live list is always what the list answered at some moment, and in the end what it answers now', async () => {
  const api = await startServer({ config: { 'realtime.live_interval_ms': 20, 'database.max_conns': 12 } })
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9))
  const world = new LiveWorld(api, seed)
  await world.setUp(3, 12)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/items', { as: world.users[0]?.token ?? '' })).status, 200),
  )
  await world.look()
  const watcher = new LiveWatcher(world.lists)
  await watcher.connect(api.url)
  for (let n = 0; n < WRITES; n++) {
    await world.write()
    await world.look()
    // Half way, all lose their connections, and come back with what they hold.
    if (n === WRITES / 2) {
      watcher.check()
      watcher.cut()
      await watcher.connect(api.url)
    }
  }
  await eventually(() => watcher.requireCurrent(), { seconds: 20 }).catch((error: Error) => {
    throw new Error(`seed ${seed}: ${error.message}`)
  })
  assert.deepEqual(watcher.mistakes, [], `seed ${seed}`)
})
