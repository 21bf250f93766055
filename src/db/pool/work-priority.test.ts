import assert from 'node:assert/strict'
import { getPriority } from 'node:os'
import { after, test } from 'node:test'
import { createDatabase, stopClusters } from '../../../test/kit/cluster.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { poolOn } from '../../../test/kit/pool.ts'
import { ANONYMOUS } from '../../core/identity.ts'
import { niceOfSession } from '../protocol/local-backend.ts'
import { sql } from '../sql.ts'
import type { PooledConnection } from './request.ts'
import { WorkPriority } from './work-priority.ts'

function start({ mayLower = true, mayRaise = true, mayRestore = true } = {}) {
  const used = new Map<number, number>()
  const nice = new Map<number, number>()
  let tick: (() => void) | undefined
  const closed: number[] = []
  const asked: number[] = []
  const work = new WorkPriority(
    {
      usedMs: (pid) => used.get(pid),
      lower: (pid, to) => mayLower && nice.set(pid, to) !== undefined,
      raise: (pid) => asked.push(pid) > 0 && mayRaise && nice.set(pid, -10) !== undefined,
      restore: (pid) => mayRestore && nice.set(pid, 0) !== undefined,
    },
    {
      now: () => 0,
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
    tick?.()
  }
  return { work, nice, closed, asked, connection, pass, isTicking: () => tick !== undefined }
}

test('what computes for long gives way until it is over, and what waits for a lock does not', () => {
  const { work, nice, connection, pass } = start()
  const [computing, waiting, own] = [connection(7), connection(8), connection(9)]
  for (const each of [computing, waiting]) work.began(each, 'slow')
  work.began(own, 'slow')
  pass({ 7: 1000, 8: 1000, 9: 1000 }) // of statements before
  pass({ 7: 25, 8: 0, 9: 25 })
  assert.deepEqual([...nice], [])
  pass({ 7: 25, 8: 0, 9: 25 })
  assert.deepEqual(
    [...nice],
    [
      [7, 5],
      [9, 5],
    ],
  )
  pass({ 7: 200, 8: 0, 9: 25 })
  assert.deepEqual(
    [...nice],
    [
      [7, 10],
      [9, 5],
    ],
    'more, the longer it computes',
  )
  for (const each of [computing, waiting, own]) work.ended(each)
  assert.deepEqual(
    [...nice],
    [
      [7, 0],
      [9, 0],
    ],
  )
})

test('a backend that the system lets nobody raise again is not used again', () => {
  const { work, closed, connection, pass } = start({ mayRestore: false })
  const one = connection(7)
  work.began(one, 'slow')
  pass({ 7: 0 })
  pass({ 7: 50 })
  work.ended(one)
  assert.deepEqual(closed, [7])
})

test('a backend of another account, which cannot be lowered, is used again', () => {
  const { work, closed, connection, pass, isTicking } = start({ mayLower: false })
  const one = connection(7)
  work.began(one, 'slow')
  pass({ 7: 0 })
  pass({ 7: 50 })
  pass()
  assert.equal(isTicking(), false)
  work.ended(one)
  assert.deepEqual(closed, [])
})

test('reads and small writes come first, set once for many of them, and other work on their connection is ordinary', () => {
  const { work, nice, asked, connection } = start()
  const one = connection(7)
  for (const kind of ['row', 'read', 'row'] as const) {
    work.began(one, kind)
    work.ended(one)
  }
  assert.deepEqual([asked, nice.get(7)], [[7], -10])
  work.began(one, 'probe')
  work.ended(one)
  assert.equal(nice.get(7), 0)
  work.began(one, 'read')
  assert.deepEqual([asked, nice.get(7)], [[7, 7], -10])
})

test('a long statement gives way on a connection of short work too', () => {
  const { work, nice, connection, pass } = start()
  const one = connection(7)
  work.began(one, 'row')
  work.ended(one)
  work.began(one, 'slow')
  assert.equal(nice.get(7), 0)
  pass({ 7: 1000 })
  pass({ 7: 50 })
  assert.equal(nice.get(7), 5)
})

test('a backend whose larger share cannot be taken back is not used again after long work', () => {
  const { work, closed, connection } = start({ mayRestore: false })
  const one = connection(7)
  work.began(one, 'row')
  work.ended(one)
  assert.deepEqual(closed, [])
  work.began(one, 'write')
  work.ended(one)
  assert.deepEqual(closed, [7])
})

test('a server that has no larger share, or may not pass it on, asks once', () => {
  const { work, asked, connection } = start({ mayRaise: false })
  for (const pid of [7, 8]) work.began(connection(pid), 'row')
  assert.deepEqual(asked, [7])
})

test('nothing is looked at on other machines, nor while nothing is at work', () => {
  const { work, nice, connection, pass, isTicking } = start()
  work.began(connection(undefined), 'slow')
  pass()
  pass()
  assert.equal(isTicking(), false)
  assert.deepEqual([...nice], [])
})

const NO_LINUX = process.platform !== 'linux' && 'only Linux tells what a backend uses'

test('a long statement of a caller has a tenth of the processor, the next on its connection a whole one', {
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
    assert.equal(getPriority(pid), 10)
  })
  const hasSessions = niceOfSession(pid) !== undefined
  if (hasSessions) assert.equal(niceOfSession(pid), 10)
  await computing
  await watcher.end()
  const next = Number(await pool.fly(ANONYMOUS, sql`select pg_backend_pid()::text`, { kind: 'slow' }))
  assert.equal(getPriority(next), 0)
  if (hasSessions) assert.equal(niceOfSession(next), 0)
})
