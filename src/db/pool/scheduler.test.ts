import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AppError } from '../../core/errors.ts'
import { asConnectionError, type PgError } from '../pg-errors.ts'
import type { ConnectionEvents } from '../protocol/connection.ts'
import { Flight } from '../protocol/flight.ts'
import type { PooledConnection, PoolRequest } from './request.ts'
import type { Side } from './reserves.ts'
import { ConnectionScheduler } from './scheduler.ts'

const TIMEOUT_MS = 30_000
const refused = (code: string): PgError => Object.assign(new Error(code), { code, severity: 'ERROR' })
const cut = (): PgError => refused('57014')

class FakeConnection implements PooledConnection {
  readonly side: Side
  readonly #events: ConnectionEvents
  readonly flights: Flight[] = []
  readonly cancelled: Flight[] = []
  readonly localBackend: number | undefined
  isClosed = false

  constructor(side: Side, events: ConnectionEvents, localBackend?: number) {
    this.side = side
    this.localBackend = localBackend
    this.#events = events
  }
  get isIdle(): boolean {
    return this.flights.length === 0 && !this.isClosed
  }
  send(flight: Flight): void {
    this.flights.push(flight)
  }
  /** PostgreSQL answers the flight at work. */
  answer(error: PgError | null = null): void {
    this.flights.shift()?.end(error)
    this.#events.onRoom()
  }
  async cancel(flight: Flight): Promise<void> {
    this.cancelled.push(flight)
  }
  async close(): Promise<void> {
    this.isClosed = true
    this.#events.onClosed()
  }
  destroy(): void {
    for (const flight of this.flights.splice(0)) flight.end(new Error('lost'))
    void this.close()
  }
}

class FakeClock {
  #now = 1_000
  readonly #timers = new Set<{ ms: number; at: number; run: () => void }>()

  now(): number {
    return this.#now
  }
  every(ms: number, run: () => void): () => void {
    const timer = { ms, at: this.#now + ms, run }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms
    for (; this.#now < until; this.#now += 50) {
      for (const timer of this.#timers) {
        if (timer.at > this.#now) continue
        timer.at += timer.ms
        timer.run()
      }
      await turn()
    }
  }
}

/** Connections that are being opened are open then. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

type Asked = { outcome: 'waits' | 'answered' | Error; limits: number[]; at: FakeConnection | undefined; leave(): void }

function start({
  max = 25,
  crowd = 2,
  writers = 25,
  isNearby = false,
  min = { own: 0, callers: 0, writers: 0, readers: 0 },
  isAway = (): boolean => false,
} = {}) {
  const clock = new FakeClock()
  const all: FakeConnection[] = []
  const failures: Side[] = []
  const scheduler = new ConnectionScheduler({
    max,
    min,
    crowd,
    writers,
    isNearby,
    acquireTimeoutMs: 10_000,
    clock,
    open: async (side, events) => {
      if (isAway()) throw new Error('away')
      const connection = new FakeConnection(side, events)
      all.push(connection)
      return connection
    },
    onOpenFailed: (side) => failures.push(side),
  })
  const ask = (
    kind: PoolRequest['kind'],
    { side = 'callers' as Side, text = 't', timeoutMs = TIMEOUT_MS } = {},
  ): Asked => {
    const asked: Asked = { outcome: 'waits', limits: [], at: undefined, leave: () => {} }
    asked.leave = scheduler.add({
      side,
      kind,
      text,
      timeoutMs,
      start: (connection, limitMs, onDone) => {
        const flight = new Flight({ steps: [], role: '' }, onDone)
        asked.limits.push(limitMs)
        asked.at = connection as FakeConnection
        connection.send(flight)
        return flight
      },
      onDone: (error: PgError | AppError | null) => {
        asked.outcome = error ?? 'answered'
      },
    })
    return asked
  }
  const many = (count: number, ...request: Parameters<typeof ask>): Asked[] =>
    Array.from({ length: count }, () => ask(...request))
  const open = (): FakeConnection[] => all.filter(({ isClosed }) => !isClosed)
  const busy = (): FakeConnection[] => open().filter(({ flights }) => flights.length > 0)
  /** PostgreSQL answers everything that is at work. */
  const answerAll = async (): Promise<void> => {
    for (const connection of busy()) while (connection.flights.length > 0) connection.answer()
    await turn()
  }
  /** The text is known to be fast from now on. */
  const know = async (text = 't'): Promise<void> => {
    ask('read', { text })
    await turn()
    await answerAll()
  }
  return { scheduler, clock, ask, many, open, busy, answerAll, know, failures }
}

const started = (asked: readonly Asked[]): number => asked.filter(({ limits }) => limits.length > 0).length
const outcomes = (asked: readonly Asked[]): unknown[] => [...new Set(asked.map(({ outcome }) => outcome))]
const isUnavailable = ({ outcome }: Asked): boolean =>
  outcome instanceof Error && outcome.message === 'database unavailable'

test('reads that are known to be fast share a connection; another joins when it has four', async () => {
  const { know, many, busy } = start()
  await know()
  many(4, 'read')
  assert.deepEqual(
    busy().map(({ flights }) => flights.length),
    [4],
  )
  many(1, 'read')
  await turn()
  many(3, 'read')
  assert.deepEqual(
    busy().map(({ flights }) => flights.length),
    [5, 3],
  )
})

test('reads are put on as many connections as the crowd, sixteen on each; more of them wait in order', async () => {
  const { know, many, busy } = start()
  await know()
  const reads = many(40, 'read')
  await turn()
  assert.deepEqual([busy().length, started(reads)], [2, 32])
  busy()[0]?.answer()
  assert.deepEqual(reads[32]?.limits, [50])
  assert.equal(started(reads), 33)
})

test('short reads on our own machine leave a core to this process, longer ones have them all', async () => {
  const { know, many, busy, clock, answerAll } = start({ isNearby: true })
  await know()
  many(20, 'read')
  await turn()
  assert.equal(busy().length, 1)
  await clock.advance(50) // for the first of them
  await answerAll()
  many(20, 'read')
  await turn()
  many(1, 'read')
  assert.equal(busy().length, 2)
})

test('an unknown read has a connection to itself, and 50 ms of it', async () => {
  const { know, ask, busy } = start()
  await know('known')
  const unknown = ask('read', { text: 'new' })
  ask('read', { text: 'known' })
  await turn()
  assert.deepEqual(unknown.limits, [50])
  assert.deepEqual(
    busy().map(({ flights }) => flights.length),
    [1, 1],
  )
})

test('of the reads of one unknown text one is tried, and the others follow as what it showed', async () => {
  const { many, busy, answerAll } = start()
  const reads = many(10, 'read')
  await turn()
  assert.deepEqual([started(reads), busy().length], [1, 1])
  busy()[0]?.answer()
  await turn()
  assert.equal(started(reads), 10)
  assert.ok(busy().length <= 2)
  await answerAll()
  assert.deepEqual(outcomes(reads), ['answered'])
})

test('while one unknown text is tried, others are too', async () => {
  const { ask } = start()
  const [first, same, other] = [ask('read', { text: 'a' }), ask('read', { text: 'a' }), ask('read', { text: 'b' })]
  await turn()
  assert.deepEqual([first.limits, same.limits, other.limits], [[50], [], [50]])
})

test('an unknown read that is cut is flown again as slow work, and so is its text for ten seconds', async () => {
  const { ask, clock } = start()
  const first = ask('read')
  await turn()
  first.at?.answer(cut())
  await turn()
  assert.deepEqual([first.limits, first.outcome], [[50, TIMEOUT_MS], 'waits'])
  const second = ask('read')
  await turn()
  assert.deepEqual(second.limits, [TIMEOUT_MS])
  await clock.advance(10_100)
  const third = ask('read')
  await turn()
  assert.deepEqual(third.limits, [50])
})

test('those that waited for an unknown read that was cut become slow work with it', async () => {
  const { many, busy } = start({ max: 5 })
  const reads = many(4, 'read')
  await turn()
  busy()[0]?.answer(cut())
  await turn()
  assert.deepEqual(
    reads.map(({ limits }) => limits),
    [[50, TIMEOUT_MS], [TIMEOUT_MS], [], []],
  )
})

test('a read known to be fast that is cut is tried alone; once is an accident, and others of its text go on', async () => {
  const { know, ask, answerAll } = start()
  await know()
  const accident = ask('read')
  accident.at?.answer(cut())
  await turn()
  assert.deepEqual([accident.limits, accident.at?.flights.length], [[50, 50], 1])
  const [one, two] = [ask('read'), ask('read')]
  await turn()
  assert.ok(one.at === two.at && one.at !== accident.at)
  await answerAll()
  assert.equal(accident.outcome, 'answered')
})

test('what is on the wire behind a read that is cut goes on', async () => {
  const { know, ask } = start()
  await know('a')
  await know('b')
  const [slow, behind] = [ask('read', { text: 'a' }), ask('read', { text: 'b' })]
  assert.equal(slow.at, behind.at)
  behind.at?.answer(cut())
  behind.at?.answer()
  assert.deepEqual([slow.outcome, behind.outcome], ['waits', 'answered'])
})

test('reads that wait while their text turns out slow are not sent to a shared connection', async () => {
  const { know, many, busy } = start({ crowd: 1 })
  await know()
  const reads = many(20, 'read')
  const [shared] = busy()
  shared?.answer(cut())
  await turn()
  assert.equal(started(reads), 17)
  const probe = busy().find((connection) => connection !== shared)
  probe?.answer(cut())
  await turn()
  assert.deepEqual(reads[0]?.limits, [50, 50, TIMEOUT_MS])
  shared?.answer()
  await turn()
  assert.deepEqual(
    reads.slice(16).map(({ limits }) => limits),
    [[50], [TIMEOUT_MS], [TIMEOUT_MS], [TIMEOUT_MS]],
  )
})

test('no more writes are at work at once than the cores are good for; one that takes long does not count', async () => {
  const { many, clock } = start({ writers: 2 })
  const writes = many(5, 'write')
  await turn()
  assert.equal(started(writes), 2)
  writes[0]?.at?.answer()
  await turn()
  assert.equal(started(writes), 3)
  await clock.advance(100)
  assert.equal(started(writes), 5)
})

test('small writes have a connection each while few are at work, then share those, four on each', async () => {
  const { many, ask, busy } = start({ writers: 2 })
  const writes = many(9, 'row')
  await turn()
  assert.deepEqual(
    busy().map(({ flights }) => flights.length),
    [4, 4],
  )
  assert.equal(started(writes), 8)
  assert.deepEqual(writes[0]?.limits, [200])
  busy()[0]?.answer()
  assert.equal(started(writes), 9)
  const read = ask('read')
  await turn()
  assert.equal(read.at?.flights.length, 1, 'no read waits behind a write')
})

test('small writes on our own machine are on a connection for each core; on more for ten seconds when they wait for the disk', async () => {
  const { many, answerAll, busy, clock } = start({ writers: 8, crowd: 2, isNearby: true })
  const spread = async (count: number): Promise<number> => {
    const writes = many(count, 'row')
    await turn()
    const used = new Set(writes.flatMap(({ at }) => at ?? [])).size
    await answerAll()
    return used
  }
  assert.equal(await spread(20), 2)
  for (let i = 0; i < 60; i++) {
    many(4, 'row')
    await turn()
    await clock.advance(50)
    for (const connection of busy()) connection.answer()
    await answerAll()
  }
  assert.equal(await spread(20), 2, 'half of them did not wait')
  for (let i = 0; i < 60; i++) {
    many(2, 'row')
    await turn()
    await clock.advance(50)
    await answerAll()
  }
  assert.equal(await spread(20), 8)
  await clock.advance(10_000)
  assert.equal(await spread(20), 2)
})

test('no write is put behind a small one that takes longer than usual', async () => {
  const { ask, clock } = start({ writers: 1 })
  const stuck = ask('row')
  await turn()
  await clock.advance(50)
  const other = ask('row', { text: 'other' })
  await turn()
  assert.deepEqual([other.limits, other.at === stuck.at], [[200], false])
})

for (const [what, error] of [
  ['takes long', cut()],
  ['waits for a lock', refused('55P03')],
] as const) {
  test(`a small write that ${what} is flown again alone under its own timeout; what is behind it goes on`, async () => {
    const { many, ask, busy } = start({ writers: 1 })
    const [first, second] = many(2, 'row')
    await turn()
    first?.at?.answer(error)
    await turn()
    assert.deepEqual([first?.outcome, first?.limits, second?.outcome], ['waits', [200], 'waits'])
    second?.at?.answer()
    await turn()
    assert.deepEqual([first?.limits, second?.outcome], [[200, TIMEOUT_MS], 'answered'])
    busy()[0]?.answer()
    assert.equal(first?.outcome, 'answered')
    assert.deepEqual(ask('row').limits, [200], 'once is an accident')
  })
}

test('a write that waits for a lock alone, until its own lock timeout, is refused', async () => {
  const { ask } = start()
  const write = ask('write')
  await turn()
  write.at?.answer(refused('55P03'))
  assert.equal((write.outcome as PgError).code, '55P03')
})

test('while a small write that was cut is tried alone, those of its text have connections of their own', async () => {
  const { ask } = start({ writers: 8, crowd: 2, isNearby: true })
  const stuck = ask('row')
  await turn()
  stuck.at?.answer(cut())
  await turn()
  const same = ask('row')
  await turn()
  assert.deepEqual([stuck.limits, same.limits], [[200, TIMEOUT_MS], [TIMEOUT_MS]])
  stuck.at?.answer()
  await turn()
  const next = ask('row')
  await turn()
  assert.deepEqual(next.limits, [200])
})

test('small writes of a text that takes long alone too do not share a connection for ten seconds', async () => {
  const { many, ask, answerAll, clock } = start({ writers: 1 })
  const slow = ask('row', { text: 'slow' })
  await turn()
  slow.at?.answer(cut())
  await turn()
  await clock.advance(100)
  slow.at?.answer()
  const again = many(2, 'row', { text: 'slow' })
  await turn()
  assert.deepEqual(
    again.map(({ limits }) => limits),
    [[TIMEOUT_MS], []],
  )
  await answerAll()
  await answerAll()
  await clock.advance(10_000)
  assert.deepEqual(ask('row', { text: 'slow' }).limits, [200])
})

test('a small write whose caller leaves is not cancelled, for others are behind it, and its caller is told how it ended', async () => {
  const { many } = start({ writers: 1 })
  const [first] = many(2, 'row')
  await turn()
  first?.leave()
  assert.deepEqual([first?.outcome, first?.at?.cancelled], ['waits', []])
  first?.at?.answer()
  assert.equal(first?.outcome, 'answered')
})

test('a write has a connection to itself and its own timeout', async () => {
  const { many } = start()
  const writes = many(3, 'write')
  await turn()
  assert.deepEqual(
    writes.map(({ limits }) => limits),
    [[TIMEOUT_MS], [TIMEOUT_MS], [TIMEOUT_MS]],
  )
  assert.equal(new Set(writes.map(({ at }) => at)).size, 3)
})

test('a write on a connection of the reserve has it for 200 ms, and is then flown again as slow work', async () => {
  const { many, ask, busy } = start({ max: 5 })
  many(2, 'slow')
  await turn()
  const write = ask('write')
  await turn()
  assert.deepEqual(write.limits, [200])
  write.at?.answer(cut())
  const next = ask('write')
  await turn()
  assert.deepEqual([write.outcome, next.limits], ['waits', [200]])
  busy()[0]?.answer()
  await turn()
  assert.deepEqual(write.limits, [200, TIMEOUT_MS])
})

test('writes that wait for locks, however many, leave a connection to others', async () => {
  const { many, ask } = start({ max: 25 })
  const stuck = many(30, 'write')
  await turn()
  const short = stuck.filter(({ limits }) => limits[0] === 200)
  assert.deepEqual([started(stuck), short.length], [20, 4])
  for (let rounds = 0; rounds < 6; rounds++) {
    for (const { at, limits } of stuck) if (limits.length === 1 && limits[0] === 200) at?.answer(cut())
    await turn()
  }
  const other = ask('write')
  await turn()
  assert.deepEqual(other.limits, [200])
  other.at?.answer()
  assert.equal(other.outcome, 'answered')
})

test('what fails for another reason, or by the timeout of its caller, is not flown again here', async () => {
  const { ask } = start()
  const wrong = ask('read', { text: 'wrong' })
  const hasty = ask('read', { text: 'hasty', timeoutMs: 20 })
  await turn()
  wrong.at?.answer(refused('22012'))
  hasty.at?.answer(cut())
  assert.deepEqual([wrong.limits, hasty.limits], [[50], [20]])
  assert.ok(wrong.outcome instanceof Error && hasty.outcome instanceof Error)
})

for (const [max, width] of [
  [2, 1],
  [4, 1],
  [5, 2],
  [8, 4],
  [16, 10],
  [25, 16],
] as const) {
  test(`of ${max} connections slow work has ${width}, and the rest goes on beside it`, async () => {
    const { many, ask, clock, busy } = start({ max })
    const calls = many(40, 'slow')
    await clock.advance(1_000)
    assert.equal(started(calls), width)
    const others = [
      ask('read', { side: 'own', text: 'o' }),
      ask('write', { side: 'own' }),
      ask('slow', { side: 'own' }),
    ]
    if (max >= 4) others.push(ask('read'), ask('write'))
    for (let rounds = 0; rounds < 20; rounds++) {
      await clock.advance(200)
      for (const { at, outcome } of others) if (outcome === 'waits' && at && at.flights.length > 0) at.answer()
    }
    assert.deepEqual(outcomes(others), ['answered'])
    for (let rounds = 0; rounds < 40; rounds++) {
      for (const connection of busy()) connection.answer()
      await turn()
    }
    assert.deepEqual(outcomes(calls), ['answered'])
  })
}

test('there are never more connections than the most, also while some are opened and closed', async () => {
  const { many, clock, open, busy } = start({ max: 6 })
  for (const side of ['own', 'callers', 'own', 'callers'] as const) {
    const asked = (['write', 'slow', 'read'] as const).flatMap((kind) => many(10, kind, { side, text: `${side}` }))
    for (let rounds = 0; rounds < 80; rounds++) {
      await clock.advance(50)
      assert.ok(open().length <= 6, `${open().length}`)
      for (const connection of busy()) connection.answer()
    }
    assert.deepEqual(outcomes(asked), ['answered'])
  }
})

test('a connection of the other login that rested is closed to make room, but not its last one', async () => {
  const { many, clock, open, answerAll } = start({ max: 4 })
  many(3, 'write', { side: 'own' })
  await turn()
  await answerAll()
  const own = () => open().filter(({ side }) => side === 'own').length
  assert.ok(own() >= 2)
  const calls = many(2, 'write')
  await clock.advance(500)
  assert.deepEqual([started(calls), open().length], [2, 4])
  assert.ok(own() >= 1)
})

test('a connection that rested for a minute is closed, down to the minimum', async () => {
  const { scheduler, many, clock, open, answerAll } = start({ min: { own: 1, callers: 2, writers: 0, readers: 0 } })
  await scheduler.warm()
  many(8, 'write')
  await turn()
  await answerAll()
  assert.equal(open().length, 9)
  await clock.advance(80_000)
  assert.deepEqual(
    open().map(({ side }) => side),
    ['own', 'callers', 'callers'],
  )
})

test('what waits longer than the acquire timeout is refused, and never runs', async () => {
  const { many, clock, busy } = start({ max: 5 })
  const calls = many(4, 'slow')
  await clock.advance(10_200)
  assert.deepEqual(calls.map(isUnavailable), [false, false, true, true])
  for (const connection of busy()) connection.answer()
  assert.equal(started(calls), 2)
})

test('what is flown again does not wait longer for it', async () => {
  const { many, ask, clock } = start({ max: 4 })
  many(1, 'slow')
  await turn()
  const write = ask('write')
  await turn()
  write.at?.answer(cut())
  await clock.advance(10_200)
  assert.ok(isUnavailable(write))
})

test('whose caller leaves while it waits never runs', async () => {
  const { many, busy } = start({ max: 5 })
  const calls = many(4, 'slow')
  await turn()
  calls[2]?.leave()
  busy()[0]?.answer()
  await turn()
  assert.deepEqual(
    calls.map(({ limits }) => limits.length),
    [1, 1, 0, 1],
  )
  assert.ok(calls[2]?.outcome instanceof Error)
})

test('slow work and writes whose caller leaves are cancelled; a read ends by its limit', async () => {
  const { ask } = start()
  const [slow, write, read] = [ask('slow'), ask('write'), ask('read')]
  await turn()
  for (const asked of [slow, write, read]) asked.leave()
  assert.deepEqual(
    [slow, write, read].map(({ at, outcome }) => [at?.cancelled.length, outcome === 'waits']),
    [
      [1, true],
      [1, true],
      [0, false],
    ],
  )
  for (const { at } of [slow, write, read]) at?.answer(cut())
  await turn()
  assert.deepEqual([slow.limits.length, write.limits.length, read.limits.length], [1, 1, 1])
})

test('a caller that leaves an unknown read leaves the others of its text their turn', async () => {
  const { ask } = start()
  const [first, second] = [ask('read'), ask('read')]
  await turn()
  first.leave()
  first.at?.answer()
  await turn()
  assert.deepEqual(second.limits, [50])
})

test('writes, unknown reads and slow work are served in turn: none waits for a flood of another', async () => {
  const { many, ask, clock } = start({ max: 5 })
  many(9, 'slow')
  await clock.advance(200)
  const flood = Array.from({ length: 50 }, (_, i) => ask('read', { text: `shape ${i}` }))
  const write = ask('write')
  await turn()
  for (let rounds = 0; rounds < 3 && write.limits.length === 0; rounds++) {
    for (const { at, outcome } of flood) if (outcome === 'waits' && at?.flights.length) at.answer(cut())
    await turn()
  }
  assert.deepEqual(write.limits, [200])
})

test('writes without end do not keep slow work from its turn', async () => {
  const { many, clock, busy } = start({ max: 5 })
  many(200, 'write')
  const calls = many(2, 'slow')
  for (let rounds = 0; rounds < 10 && started(calls) < 2; rounds++) {
    for (const connection of busy()) connection.answer()
    await clock.advance(50)
  }
  assert.equal(started(calls), 2)
})

test('a transaction has its connection also between its flights', async () => {
  const { scheduler, ask } = start({ max: 2 })
  let release = (): void => {}
  const start_: PoolRequest['start'] = (_connection, _timeoutMs, onDone) => {
    release = () => onDone(null)
    return undefined
  }
  scheduler.add({ side: 'callers', kind: 'write', text: '', timeoutMs: 0, start: start_, onDone: () => {} })
  await turn()
  const next = ask('write')
  await turn()
  assert.equal(next.limits.length, 0)
  release()
  assert.equal(next.limits.length, 1)
})

test('a connection that is lost fails what is on it, and is replaced for those that wait', async () => {
  const { many, busy } = start({ max: 5 })
  const calls = many(3, 'slow')
  await turn()
  busy()[0]?.destroy()
  await turn()
  assert.deepEqual(calls[0]?.outcome, new Error('lost'))
  assert.equal(started(calls), 3)
})

test('a failure to connect is reported, and tried again while something waits', async () => {
  let isAway = true
  const { ask, clock, failures } = start({ isAway: () => isAway })
  const call = ask('slow')
  await clock.advance(300)
  assert.ok(failures.length >= 2)
  isAway = false
  await clock.advance(200)
  assert.equal(call.limits.length, 1)
})

test('when one login is refused, those of the other go on waiting', async () => {
  const { scheduler, ask, clock } = start({ isAway: () => true })
  const [own, callers] = [ask('write', { side: 'own' }), ask('write')]
  await clock.advance(100)
  scheduler.failWaiters(['callers'])
  assert.deepEqual([own.outcome, isUnavailable(callers)], ['waits', true])
  scheduler.failWaiters()
  assert.ok(isUnavailable(own))
})

test('a closed scheduler ends its connections and refuses what comes', async () => {
  const { scheduler, many, ask, open } = start({ max: 4 })
  const calls = many(2, 'slow')
  await turn()
  await scheduler.close()
  assert.deepEqual([open().length, isUnavailable(calls[1] as Asked)], [0, true])
  assert.ok(isUnavailable(ask('read')))
})

test('the size and what rests of it are known', async () => {
  const { scheduler, many, answerAll } = start()
  many(3, 'write')
  await turn()
  assert.deepEqual([scheduler.size, scheduler.idle, scheduler.sizeOf('own')], [3, 0, 0])
  await answerAll()
  assert.deepEqual([scheduler.size, scheduler.idle], [3, 3])
})

test('when a connection goes without a word, those that rest are not tried one after the other', async () => {
  const { ask, many, open, answerAll } = start()
  many(5, 'slow')
  await turn()
  await answerAll()
  ask('slow').at?.answer(refused('57P01'))
  assert.equal(open().length, 5)
  const lost = ask('slow')
  lost.at?.flights.shift()?.end(asConnectionError(new Error('lost')))
  assert.deepEqual(open(), [lost.at])
})
