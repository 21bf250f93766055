import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { AppError } from './errors.ts'
import { Budget, inParallel, KeyedLimit, KeyedMutex, Semaphore } from './limits.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Work that ends when the test says so. */
function gate() {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, work: () => opened }
}

test('a semaphore runs at most so many at a time, in order', async () => {
  const semaphore = new Semaphore(2)
  const begun: number[] = []
  const gates = [gate(), gate(), gate(), gate()]
  const all = gates.map(({ work }, n) =>
    semaphore.run(() => {
      begun.push(n)
      return work()
    }),
  )
  await nextTurn()
  assert.deepEqual(begun, [0, 1])
  assert.equal(semaphore.waiting, 2)
  gates[1]?.open()
  await nextTurn()
  assert.deepEqual(begun, [0, 1, 2])
  for (const { open } of gates) open()
  await Promise.all(all)
  assert.equal(semaphore.inUse, 0)
})

test('failed work gives its turn on', async () => {
  const semaphore = new Semaphore(1)
  await assert.rejects(semaphore.run(() => Promise.reject(new Error('no'))))
  assert.equal(await semaphore.run(async () => 'next'), 'next')
})

test('a waiting caller gives up when it is gone or has waited long enough, and never runs', async () => {
  const semaphore = new Semaphore(1)
  const first = gate()
  const running = semaphore.run(first.work)
  const abort = new AbortController()
  const cancelled = semaphore.run(async () => assert.fail('ran'), { signal: abort.signal })
  const late = semaphore.run(async () => assert.fail('ran'), { timeoutMs: 1 })
  abort.abort()
  await assert.rejects(cancelled, { errorCode: 'request_timeout' })
  await assert.rejects(late, { errorCode: 'server_busy', message: 'server busy' })
  await assert.rejects(
    semaphore.run(async () => assert.fail('ran'), { signal: abort.signal }),
    AppError,
  )
  assert.equal(semaphore.waiting, 0)
  first.open()
  await running
})

test('a keyed mutex serialises one key and leaves the others alone', async () => {
  const mutex = new KeyedMutex()
  const first = gate()
  const order: string[] = []
  const a1 = mutex.run('a', () => first.work().then(() => void order.push('a1')))
  const a2 = mutex.run('a', async () => void order.push('a2'))
  await mutex.run('b', async () => void order.push('b'))
  first.open()
  await Promise.all([a1, a2])
  assert.deepEqual(order, ['b', 'a1', 'a2'])
})

test('a keyed limit has places in all and for each key', () => {
  const limit = new KeyedLimit({ total: 3, perKey: 2 })
  const release = limit.tryAcquire('a')
  assert.ok(release && limit.tryAcquire('a'))
  assert.equal(limit.tryAcquire('a'), undefined)
  assert.ok(limit.tryAcquire('b'))
  assert.equal(limit.tryAcquire('c'), undefined)
  release()
  release()
  assert.equal(limit.free, 1)
  assert.ok(limit.tryAcquire('c'))
})

test('of a budget the oldest of the heaviest key is evicted, and every byte comes back', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.integer({ min: 1, max: 40 })), { maxLength: 60 }),
      (requests) => {
        const budget = new Budget({ total: 100, perKey: 60 })
        const evicted = new Set<number>()
        const reservations = requests.map(([key, bytes], n) => {
          const reservation = budget.reserve(key, () => evicted.add(n))
          reservation.grow(bytes)
          assert.ok(budget.used <= 100)
          return reservation
        })
        for (const reservation of reservations) reservation.release()
        assert.equal(budget.used, 0)
      },
    ),
  )
  const budget = new Budget({ total: 100, perKey: 60 })
  const evicted: string[] = []
  budget.reserve('a', () => evicted.push('old')).grow(40)
  budget.reserve('a', () => evicted.push('new')).grow(30)
  budget.reserve('b', () => evicted.push('other')).grow(60)
  assert.deepEqual(evicted, ['old'])
})

test('bounded parallelism goes through all items', async () => {
  let atWork = 0
  let most = 0
  const seen: number[] = []
  await inParallel([1, 2, 3, 4, 5], 2, async (item) => {
    most = Math.max(most, ++atWork)
    await nextTurn()
    seen.push(item)
    atWork--
  })
  assert.deepEqual(seen.sort(), [1, 2, 3, 4, 5])
  assert.equal(most, 2)
})

test('after a failure no further item is begun', async () => {
  const seen: number[] = []
  const work = async (item: number): Promise<void> => {
    seen.push(item)
    await nextTurn()
    if (item === 1) throw new Error('broken')
    await nextTurn()
  }
  await assert.rejects(inParallel([1, 2, 3, 4, 5], 2, work), { message: 'broken' })
  await nextTurn()
  await nextTurn()
  assert.deepEqual(seen, [1, 2])
})
