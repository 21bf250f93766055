import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, type SpawnedServer, spawnServer } from '../../../../../test/kit/kit.ts'
import { LiveWatcher, LiveWorld, randomFrom } from '../../../../../test/kit/live-world.ts'

const ROUNDS = 3
const WRITES = 150
const KILL_EVERY = 30

const config = { 'realtime.live_interval_ms': 20, 'database.max_conns': 12 }

for (let round = 1; round <= ROUNDS; round++) {
  test(`round ${round}: servers are killed while others write, and each list stays one that was answered`, async () => {
    const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9))
    const random = randomFrom(seed)
    const servers: SpawnedServer[] = []
    servers.push(await spawnServer({ config }))
    const [first] = servers as [SpawnedServer]
    servers.push(await spawnServer({ config, on: first }))
    const world = new LiveWorld(first, seed)
    await world.setUp(4, 16)
    await eventually(async () =>
      assert.equal((await first.call('GET /api/collections/items', { as: world.users[0]?.token ?? '' })).status, 200),
    )
    await world.look()
    const watcher = new LiveWatcher(world.lists)
    await watcher.connect(first.url)
    for (let n = 1; n <= WRITES; n++) {
      await world.write()
      await world.look()
      if (n % KILL_EVERY !== 0) continue
      watcher.check()
      const at = random(2)
      await servers[at]?.kill('SIGKILL')
      const other = servers[1 - at] as SpawnedServer
      world.use(other)
      // Writes go on while its clients look for another server.
      const writing = (async () => {
        for (let more = 0; more < 10; more++) {
          await world.write()
          await world.look()
        }
      })()
      watcher.cut()
      await eventually(() => watcher.connect(other.url))
      await writing
      servers[at] = await spawnServer({ config, on: other })
    }
    await eventually(() => watcher.requireCurrent(), { seconds: 30 }).catch((error: Error) => {
      throw new Error(`seed ${seed}: ${error.message}`)
    })
    assert.deepEqual(watcher.mistakes, [], `seed ${seed}`)
    for (const server of servers) await server.stop()
  })
}
