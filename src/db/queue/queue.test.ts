import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { testDatabase } from '../../../test/kit/database.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { programOf } from '../../../test/kit/programs.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Pool } from '../pool/pool.ts'
import { sql } from '../sql.ts'
import { GiveUp, Queue, RetryIn } from './queue.ts'

const database = await testDatabase()
const [poolA, poolB] = [await database.open(), await database.open()]
const queueOn = (db: Pool, more: { finishMs?: number } = {}): Queue => {
  const queue = new Queue({ db, observe: () => {}, pollMs: 100, ...more })
  queue.start()
  database.atEnd(() => queue.stop())
  return queue
}

const options = { concurrency: 4, leaseSeconds: 30, retryDelays: [0, 0] }
const rowsOf = (kind: string) =>
  poolA.rows<{ attempts: number; worker: string | null; last_error: string | null }>(
    SYSTEM,
    sql`select attempts, worker, last_error from svc.queue where kind = ${kind}`,
  )
const gone = (kind: string) => eventually(async () => assert.deepEqual(await rowsOf(kind), []))

test('nothing begins before the queue is started, and then everything', async () => {
  const queue = new Queue({ db: poolA, observe: () => {} })
  database.atEnd(() => queue.stop())
  let runs = 0
  queue.work('early', options, async () => void runs++)
  const other = queueOn(poolA)
  other.work('at once', options, async () => {})
  await poolA.run(SYSTEM, [queue.push('early', {}), other.push('at once', {})])
  queue.wake('early')
  other.wake('at once')
  await gone('at once')
  assert.deepEqual([runs, (await rowsOf('early')).length], [0, 1])
  queue.start()
  await gone('early')
  assert.equal(runs, 1)
})

test('two processes run each of 300 items exactly once and leave no row', async () => {
  const [a, b] = [queueOn(poolA), queueOn(poolB)]
  const runs: Record<'a' | 'b', number[]> = { a: [], b: [] }
  let help = () => {}
  const helped = new Promise<void>((resolve) => (help = resolve))
  const handler = (who: 'a' | 'b') => async (item: { payload: unknown }) => {
    runs[who].push((item.payload as { n: number }).n)
    if (who === 'b') help()
    await helped
  }
  a.work('once', options, handler('a'))
  b.work('once', options, handler('b'))
  for (let n = 0; n < 300; n++) await poolA.fly(SYSTEM, a.push('once', { n }))
  a.wake('once')
  await gone('once')
  assert.deepEqual(
    [...runs.a, ...runs.b].sort((x, y) => x - y),
    Array.from({ length: 300 }, (_, n) => n),
  )
  assert.ok(runs.a.length > 0 && runs.b.length > 0)
})

test('an item of a flight that rolled back does not exist', async () => {
  const queue = queueOn(poolA)
  await assert.rejects(poolA.fly(SYSTEM, [queue.push('rolled', {}), sql`select 1/0`]))
  assert.deepEqual(await rowsOf('rolled'), [])
})

test('an item is queued for each row its cause returns, and for none when it returns none', async () => {
  const queue = queueOn(poolA)
  await poolA.run(SYSTEM, sql`create table public.causes (n int)`)
  await poolA.fly(
    SYSTEM,
    queue.push('caused', {}, { forEach: sql`insert into public.causes values (1), (2) returning n` }),
  )
  await poolA.fly(SYSTEM, queue.push('caused', {}, { forEach: sql`delete from public.causes where n = 3 returning n` }))
  assert.equal((await rowsOf('caused')).length, 2)
})

test('what a killed process held is run again once its lease is over', async () => {
  const queue = queueOn(poolA)
  await poolA.fly(SYSTEM, queue.push('victim', {}))
  const child = spawn(process.execPath, [...programOf('test/faults/queue-victim.ts'), database.url, 'victim'])
  const [line] = await once(child.stdout, 'data')
  assert.match(String(line), /claimed 1/)
  child.kill('SIGKILL')
  await once(child, 'exit')
  let attempt = 0
  queue.work('victim', options, async (item) => {
    attempt = item.attempt
  })
  assert.equal((await rowsOf('victim')).length, 1)
  await poolA.run(SYSTEM, sql`update svc.queue set lease_until = now(), run_at = now() where kind = 'victim'`)
  await gone('victim')
  assert.equal(attempt, 2)
})

test('a lease is kept by heartbeat for as long as the handler runs', async () => {
  const [a, b] = [queueOn(poolA), queueOn(poolB)]
  let runs = 0
  let finish = () => {}
  const handler = () => {
    runs++
    return new Promise<void>((resolve) => (finish = resolve))
  }
  a.work('long', { ...options, heartbeatMs: 50 }, handler)
  b.work('long', { ...options, heartbeatMs: 50 }, handler)
  await poolA.fly(SYSTEM, a.push('long', {}))
  a.wake('long')
  const lease = async (after: string) => {
    const until = sql`select lease_until::text from svc.queue where kind = 'long' and lease_until > ${after}::timestamptz`
    const text = await poolA.fly(SYSTEM, until)
    assert.ok(text, 'a lease that ends later')
    return text
  }
  const first = await eventually(() => lease('-infinity'))
  await eventually(() => lease(first))
  assert.equal(runs, 1)
  finish()
  await gone('long')
})

test('stop gives items back at once, and the interrupted attempt does not count', async () => {
  const [a, b] = [queueOn(poolA), queueOn(poolB)]
  let started = () => {}
  const running = new Promise<void>((resolve) => (started = resolve))
  a.work('given', options, async () => {
    started()
    await new Promise(() => {}) // ignores its signal
  })
  await poolA.fly(SYSTEM, a.push('given', {}))
  a.wake('given')
  await running
  await a.stop()
  const [row] = await rowsOf('given')
  assert.deepEqual({ attempts: row?.attempts, worker: row?.worker }, { attempts: 0, worker: null })

  let attempt = 0
  b.work('given', options, async (item) => {
    attempt = item.attempt
  })
  await gone('given')
  assert.equal(attempt, 1)
})

test('what cannot be taken back is let finish by a stop, and is done once', async () => {
  const queue = queueOn(poolA, { finishMs: 200_000 })
  let runs = 0
  let finish = () => {}
  const may = new Promise<void>((resolve) => (finish = resolve))
  let started = () => {}
  const running = new Promise<void>((resolve) => (started = resolve))
  queue.work('letter', { ...options, finishes: true }, async (_item, signal) => {
    runs++
    started()
    await may
    assert.equal(signal.aborted, false)
  })
  await poolA.fly(SYSTEM, queue.push('letter', {}))
  queue.wake('letter')
  await running
  const stopped = queue.stop()
  const other = queueOn(poolB)
  other.work('letter', options, async () => void runs++)
  await poolA.fly(SYSTEM, other.push('after', {}))
  let isNext = false
  other.work('after', options, async () => {
    isNext = true
  })
  await eventually(() => assert.ok(isNext, 'the other process is at work'))
  finish()
  await stopped
  await gone('letter')
  assert.equal(runs, 1)
})

test('a stop waits for what finishes no longer than it may', async () => {
  const queue = new Queue({ db: poolA, observe: () => {}, finishMs: 700 })
  queue.start()
  let started = () => {}
  const running = new Promise<void>((resolve) => (started = resolve))
  queue.work('endless', { ...options, finishes: true }, async () => {
    started()
    await new Promise(() => {})
  })
  await poolA.fly(SYSTEM, queue.push('endless', {}))
  queue.wake('endless')
  await running
  await queue.stop()
  const [row] = await rowsOf('endless')
  assert.deepEqual({ attempts: row?.attempts, worker: row?.worker }, { attempts: 0, worker: null })
})

test('a poison item is dead after its last retry, is passed to onDead, and blocks no other item', async () => {
  const queue = queueOn(poolA)
  const done: string[] = []
  const dead: [unknown, number, string][] = []
  queue.work(
    'poison',
    {
      ...options,
      concurrency: 1,
      onDead: (item, error) => void dead.push([item.payload, item.attempt, String(error)]),
    },
    async ({ payload }) => {
      const { name } = payload as { name: string }
      if (name === 'bad') throw new Error('never works')
      done.push(name)
    },
  )
  await poolA.fly(SYSTEM, [queue.push('poison', { name: 'bad' }), queue.push('poison', { name: 'good' })])
  queue.wake('poison')
  await gone('poison')
  assert.deepEqual(done, ['good'])
  assert.deepEqual(dead, [[{ name: 'bad' }, 3, 'Error: never works']])
})

test('an item whose attempts were all used up by dying processes is not run again', async () => {
  const queue = queueOn(poolA)
  const dead: number[] = []
  let runs = 0
  await poolA.fly(SYSTEM, [queue.push('deadly', {}), sql`update svc.queue set attempts = 3 where kind = 'deadly'`])
  queue.work('deadly', { ...options, onDead: (item) => void dead.push(item.attempt) }, async () => void runs++)
  await gone('deadly')
  assert.deepEqual([runs, dead], [0, [4]])
})

test('a handler chooses its own wait, or to give up at once', async () => {
  const queue = queueOn(poolA)
  const attempts: Record<string, number> = {}
  queue.work('choosy', { ...options, retryDelays: [3600] }, async ({ payload, attempt }) => {
    const { name } = payload as { name: string }
    attempts[name] = attempt
    if (name === 'later' && attempt === 1) throw new RetryIn(0, 'busy')
    if (name === 'never') throw new GiveUp('refused')
  })
  await poolA.fly(SYSTEM, [queue.push('choosy', { name: 'later' }), queue.push('choosy', { name: 'never' })])
  queue.wake('choosy')
  await gone('choosy')
  assert.deepEqual(attempts, { later: 2, never: 1 })
})

test('a group that hangs keeps its cap and does not starve the others', async () => {
  const queue = queueOn(poolA)
  const finished: string[] = []
  let hanging = 0
  let release = () => {}
  const released = new Promise<void>((resolve) => (release = resolve))
  queue.work('grouped', { ...options, concurrency: 4, perGroup: 2 }, async ({ payload }) => {
    const { group } = payload as { group: string }
    if (group === 'hangs') {
      hanging++
      await released
    }
    finished.push(group)
  })
  // The backlog of the hanging group is older than everything else.
  for (let i = 0; i < 50; i++) await poolA.fly(SYSTEM, queue.push('grouped', { group: 'hangs' }, { group: 'hangs' }))
  for (let i = 0; i < 20; i++) {
    const group = `g${i % 5}`
    await poolA.fly(SYSTEM, queue.push('grouped', { group }, { group }))
  }
  queue.wake('grouped')
  await eventually(() => assert.equal(finished.length, 20))
  assert.equal(hanging, 2)
  release()
  await gone('grouped')
  assert.equal(finished.length, 70)
})

test('a process claims no more than it has slots for; other processes get the rest', async () => {
  const [a, b] = [queueOn(poolA), queueOn(poolB)]
  const few = { ...options, concurrency: 2 }
  let [atWork, most] = [0, 0]
  let release = () => {}
  const released = new Promise<void>((resolve) => (release = resolve))
  a.work('few', few, async () => {
    most = Math.max(most, ++atWork)
    await released
    atWork--
  })
  const rows = sql`select '' as group_key, '{}'::jsonb as payload from generate_series(1, 40)`
  await poolA.run(SYSTEM, a.pushEach('few', rows))
  a.wake('few')
  await eventually(() => assert.equal(atWork, 2))
  const attempts: number[] = []
  b.work('few', few, async ({ attempt }) => void attempts.push(attempt))
  await eventually(() => assert.equal(attempts.length, 38))
  assert.deepEqual([...new Set(attempts)], [1])
  release()
  await gone('few')
  assert.equal(most, 2)
})

test('what a handler resolves to is written with the removal of its item, or neither is', async () => {
  const queue = queueOn(poolA)
  let runs = 0
  queue.work('noted', options, async () => {
    runs++
    return sql`insert into public.notes_of_work values (1)`
  })
  await poolA.fly(SYSTEM, queue.push('noted', {}))
  queue.wake('noted')
  await eventually(() => assert.equal(runs, 1))
  assert.equal((await rowsOf('noted')).length, 1, 'it cannot be written yet')
  await poolA.run(SYSTEM, sql`create table public.notes_of_work (n int)`)
  await gone('noted')
  assert.equal((await poolA.rows(SYSTEM, sql`select n from public.notes_of_work`)).length, 1)
  assert.equal(runs, 1)
})

test('a delayed item waits for its time by the database clock', async () => {
  const queue = queueOn(poolA)
  let runs = 0
  queue.work('delayed', options, async () => void runs++)
  await poolA.fly(SYSTEM, queue.push('delayed', {}, { delaySeconds: 3600 }))
  queue.wake('delayed')
  await poolA.fly(SYSTEM, queue.push('delayed', {}))
  queue.wake('delayed')
  await eventually(() => assert.equal(runs, 1))
  assert.equal((await rowsOf('delayed')).length, 1)
  await poolA.fly(SYSTEM, sql`update svc.queue set run_at = now() where kind = 'delayed'`)
  await gone('delayed') // found by the poll, without a wake
  assert.equal(runs, 2)
})

test('the queue outlives connections that are cut under it', async () => {
  const queue = queueOn(poolB)
  let runs = 0
  queue.work('cut', { ...options, leaseSeconds: 15 }, async () => void runs++)
  await poolA.fly(
    SYSTEM,
    sql`select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  )
  await eventually(() => poolA.fly(SYSTEM, queue.push('cut', {})))
  await gone('cut')
  assert.equal(runs, 1)
})
