import assert from 'node:assert/strict'
import { getPriority } from 'node:os'
import { after, test } from 'node:test'
import { createDatabase, stopClusters } from '../../../test/kit/cluster.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { poolOn } from '../../../test/kit/pool.ts'
import { ANONYMOUS } from '../../core/identity.ts'
import { readProcess } from '../protocol/local-backend.ts'
import { sql } from '../sql.ts'
import { LongStatements } from './long-statements.ts'
import type { PooledConnection } from './request.ts'

const CALLERS = { isOwn: false }

/** Another backend computes for long, and then has its share back. */
function raiseOnce({ long, connection, pass }: Pick<ReturnType<typeof start>, 'long' | 'connection' | 'pass'>): void {
  const another = connection(9)
  long.began(another, CALLERS)
  pass({ 9: 0 })
  pass({ 9: 50 })
  long.ended(another)
}

function start({ mayLower = true, mayRestore = true } = {}) {
  const used = new Map<number, number>()
  const nice = new Map<number, number>()
  const workers = new Map<number, number>()
  let tick: (() => void) | undefined
  const closed: number[] = []
  let now = 0
  let looks = 0
  const long = new LongStatements(
    {
      usedMs: (pid) => {
        looks++
        return used.get(pid)
      },
      lower: (pid, to) => mayLower && nice.set(pid, to) !== undefined,
      lowerWorkers: (pid, to) => workers.set(pid, to),
      restore: (pid) => mayRestore && nice.set(pid, 0) !== undefined,
    },
    {
      now: () => now,
      every: (_ms, run) => {
        tick = run
        return () => {
          tick = undefined
        }
      },
    },
  )
  const connection = (localBackend: number | undefined): PooledConnection =>
    ({ localBackend, close: async () => void closed.push(localBackend ?? 0) }) as PooledConnection
  /** 25 ms later, in which the backends computed for so long. */
  const pass = (computed: Readonly<Record<number, number>> = {}): void => {
    for (const [pid, ms] of Object.entries(computed)) used.set(Number(pid), (used.get(Number(pid)) ?? 0) + ms)
    now += 25
    tick?.()
  }
  /** Slow work of a text that takes, and computes, for so long. Returns its nice value at the beginning. */
  const run = (one: PooledConnection, slowText: string, took: { ms: number; computes: number }): number => {
    const pid = one.localBackend ?? 0
    used.set(pid, used.get(pid) ?? 0)
    long.began(one, { isOwn: false, slowText })
    const niceAtFirst = nice.get(pid) ?? 0
    now += took.ms
    used.set(pid, (used.get(pid) ?? 0) + took.computes)
    long.ended(one)
    return niceAtFirst
  }
  return { long, nice, workers, closed, connection, pass, run, looks: () => looks, isTicking: () => tick !== undefined }
}

test('what computes for long gives way until it is over, and what waits for a lock does not', () => {
  const { long, nice, workers, connection, pass } = start()
  const [computing, waiting, own] = [connection(7), connection(8), connection(9)]
  for (const each of [computing, waiting]) long.began(each, CALLERS)
  long.began(own, { isOwn: true })
  pass({ 7: 1000, 8: 1000, 9: 1000 }) // of statements before
  pass({ 7: 25, 8: 0, 9: 25 })
  assert.deepEqual([...nice], [])
  pass({ 7: 25, 8: 0, 9: 25 })
  for (const given of [nice, workers]) {
    assert.deepEqual(
      [...given],
      [
        [7, 19],
        [9, 10],
      ],
    )
  }
  for (const each of [computing, waiting, own]) long.ended(each)
  assert.deepEqual(
    [...nice],
    [
      [7, 0],
      [9, 0],
    ],
  )
})

test('what waits for long is looked at less and less often, and still found', () => {
  const { long, nice, connection, pass, looks } = start()
  long.began(connection(7), CALLERS)
  for (let ticks = 0; ticks < 80; ticks++) pass({ 7: 0 }) // two seconds
  assert.ok(looks() <= 32, `${looks()} looks`)
  for (let ticks = 0; ticks < 16; ticks++) pass({ 7: 25 })
  assert.equal(nice.get(7), 19)
})

test('slow work whose text has computed for a while gives way from its beginning, as long as it goes on to', () => {
  const { long, connection, nice, pass, run } = start()
  const one = connection(7)
  raiseOnce({ long, connection, pass })
  const counting = { ms: 11, computes: 11 }
  assert.equal(run(one, 'count', counting), 0) // it took long: the next is measured
  assert.equal(run(one, 'count', counting), 0)
  assert.equal(run(one, 'count', counting), 10)
  assert.equal(nice.get(7), 0)
  assert.equal(run(one, 'another', counting), 0)
  assert.equal(run(one, 'count', { ms: 11, computes: 1 }), 10)
  assert.equal(run(one, 'count', counting), 0)
})

test('slow work never gives way from its beginning where a backend could not be raised again, or none was yet', () => {
  for (const rights of [{}, { mayLower: false, mayRestore: false }, { mayRestore: false }]) {
    const { long, closed, connection, pass, run } = start(rights)
    const one = connection(7)
    if ('mayRestore' in rights) raiseOnce({ long, connection, pass })
    for (let i = 0; i < 5; i++) assert.equal(run(one, 'count', { ms: 11, computes: 11 }), 0)
    assert.deepEqual(closed, 'mayLower' in rights || !('mayRestore' in rights) ? [] : [9])
  }
})

test('slow work that waits, or is short, never gives way', () => {
  const { connection, run } = start()
  const one = connection(7)
  for (let i = 0; i < 5; i++) {
    assert.equal(run(one, 'waits', { ms: 1000, computes: 1 }), 0)
    assert.equal(run(one, 'short', { ms: 2, computes: 2 }), 0)
  }
})

test('a backend that the system lets nobody raise again is not used again', () => {
  const { long, closed, connection, pass } = start({ mayRestore: false })
  const one = connection(7)
  long.began(one, CALLERS)
  pass({ 7: 0 })
  pass({ 7: 50 })
  long.ended(one)
  assert.deepEqual(closed, [7])
})

test('nothing is looked at on other machines, nor while nothing is at work', () => {
  const { long, nice, connection, pass, isTicking } = start()
  long.began(connection(undefined), CALLERS)
  pass()
  pass()
  assert.equal(isTicking(), false)
  assert.deepEqual([...nice], [])
})

const NO_LINUX = process.platform !== 'linux' && 'only Linux tells what a backend uses'

test('a long statement of a caller has a small share of the processor, the next on its connection a whole one', {
  skip: NO_LINUX,
}, async () => {
  const database = await createDatabase('embedded')
  const pool = await poolOn(database.url)
  after(async () => {
    await pool.stop()
    await database.drop()
    await stopClusters()
  })
  const backends = `select string_agg(pid::text, ',') from pg_stat_activity where query like '%computes%' and state = 'active' and pid <> pg_backend_pid()`
  const watcher = await pool.openConnection()
  const computing = pool.fly(ANONYMOUS, sql`select count(*)::text as computes from generate_series(1, 6000000)`, {
    kind: 'slow',
  })
  let pid = 0
  await eventually(async () => {
    const { rows } = await watcher.query<{ string_agg: string | null }>(backends)
    pid = Number(rows[0]?.string_agg ?? 0)
    assert.equal(getPriority(pid), 19)
  })
  const group = readProcess(pid, 'autogroup')
  if (group !== undefined) assert.match(group, / nice 19$/m)
  await computing
  await watcher.end()
  const next = Number(await pool.fly(ANONYMOUS, sql`select pg_backend_pid()::text`, { kind: 'slow' }))
  assert.equal(getPriority(next), 0)
  if (group !== undefined) assert.match(readProcess(next, 'autogroup') ?? '', / nice 0$/m)
})
