import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../../../test/kit/kit.ts'
import { AppError } from '../../../core/errors.ts'
import type { Observation } from '../../../core/observe.ts'
import type { Schema } from '../snapshot.ts'
import { FollowedSchema } from './cache.ts'

/** A database whose shape is a number; loads wait for `finish` when `hold` is set. */
function setUp({ pollMs = 60_000 } = {}) {
  const state = {
    version: 1,
    loads: 0,
    checks: 0,
    hold: false,
    fails: false,
    finish: () => {},
    notify: () => {},
    observations: [] as Observation[],
  }
  const cache = new FollowedSchema({
    load: async () => {
      state.loads++
      const serverVersion = state.version
      const fingerprint = String(serverVersion)
      if (state.hold) await new Promise<void>((resolve) => (state.finish = resolve))
      if (state.fails) throw new Error('no luck')
      return { fingerprint, schema: { serverVersion, tables: new Map(), warnings: [] } as unknown as Schema }
    },
    fingerprint: async () => {
      state.checks++
      return String(state.version)
    },
    listen: async (_channel, listener) => {
      state.notify = () => listener('')
      return async () => {}
    },
    observe: (observation) => void state.observations.push(observation),
    pollMs,
  })
  return { cache, state }
}

test('before the first load the schema is 503', () => {
  const { cache } = setUp()
  assert.throws(
    () => cache.read(),
    (error) => error instanceof AppError && error.status === 503 && error.message === 'schema cache not ready',
  )
})

test('a reload requested during a load begins after it, and is shared', async () => {
  const { cache, state } = setUp()
  state.hold = true
  const first = cache.reload()
  await eventually(() => assert.equal(state.loads, 1))
  state.version = 2
  const later = [cache.reload(), cache.reload(), cache.reload()]
  state.hold = false
  state.finish()
  assert.equal((await first).serverVersion, 1)
  for (const { serverVersion } of await Promise.all(later)) assert.equal(serverVersion, 2)
  assert.equal(state.loads, 2)
  assert.equal(cache.read().serverVersion, 2)
})

test('a failed reload keeps the snapshot there was', async () => {
  const { cache, state } = setUp()
  await cache.reload()
  state.fails = true
  await assert.rejects(cache.reload(), /no luck/)
  assert.equal(cache.read().serverVersion, 1)
})

test('a miss loads again only when the catalogue changed', async () => {
  const { cache, state } = setUp()
  await cache.reload()
  await cache.refreshIfStale()
  assert.equal(state.loads, 1)
  state.version = 2
  assert.equal((await cache.refreshIfStale()).serverVersion, 2)
  assert.equal(state.loads, 2)
})

test('a flood of misses costs a few checks', async () => {
  const { cache, state } = setUp()
  await cache.reload()
  state.checks = 0
  const floods = Array.from({ length: 3 }, () =>
    Promise.all(Array.from({ length: 1000 }, () => cache.refreshIfStale())),
  )
  await Promise.all(floods)
  assert.ok(state.checks <= 3, `${state.checks} checks`)
  assert.equal(state.loads, 1)
})

test('a miss never gets the answer of a check that began before it', async () => {
  const { cache, state } = setUp()
  await cache.reload()
  for (let version = 2; version < 8; version++) {
    const earlier = cache.refreshIfStale()
    if (version % 2 === 0) await new Promise(setImmediate)
    state.version = version
    const [, mine] = await Promise.all([earlier, cache.refreshIfStale()])
    assert.equal(mine.serverVersion, version)
  }
})

test('where nothing notifies, the poll notices', async () => {
  const { cache, state } = setUp({ pollMs: 20 })
  await cache.start()
  try {
    state.version = 2
    await eventually(() => assert.equal(cache.read().serverVersion, 2))
  } finally {
    await cache.stop()
  }
})

test('a listener hears of each swap, even after one that throws', async () => {
  const { cache, state } = setUp()
  const versions: number[] = []
  cache.onChange(() => {
    throw new Error('clumsy')
  })
  cache.onChange(({ serverVersion }) => void versions.push(serverVersion))
  await cache.reload()
  state.version = 2
  await cache.reload()
  assert.deepEqual(versions, [1, 2])
  assert.equal(state.observations.filter(({ message }) => message === 'schema listener failed').length, 2)
})

test('a notification that cannot be followed at once is followed later', async () => {
  const { cache, state } = setUp()
  await cache.start()
  try {
    state.version = 2
    state.fails = true
    state.notify()
    await eventually(() => assert.ok(state.observations.some(({ message }) => message === 'schema reload failed')))
    state.fails = false
    await eventually(() => assert.equal(cache.read().serverVersion, 2))
  } finally {
    await cache.stop()
  }
})
