import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testDatabase } from '../../../test/kit/database.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { SYSTEM } from '../../core/identity.ts'
import { Queue } from '../../db/queue/queue.ts'
import { sql } from '../../db/sql.ts'
import { Runner } from './runner.ts'
import { addJob } from './sql.ts'

const database = await testDatabase()
const db = await database.open()

let runs = 0
/** A process whose jobs never end. */
function startProcess(): Queue {
  const queue = new Queue({ db, observe: () => {}, pollMs: 20 })
  const config = { worker_concurrency: 4, lease_duration: 60 }
  new Runner({ db, queue, config, onRun: () => {} }).work({
    async endless({ signal }) {
      runs++
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('interrupted'))))
    },
  })
  queue.start()
  database.atEnd(() => queue.stop())
  return queue
}

const jobs = () => db.rows(SYSTEM, sql`select state, attempts, last_error, worker from svc.jobs order by created_at`)
const isRunning = (times: number) => eventually(async () => assert.equal(runs, times))
const ended = (attempts: number) => ({
  state: 'failed',
  attempts,
  last_error: 'the process died in every attempt',
  worker: null,
})

test('a job whose process is killed at its last attempt has failed, with no further attempt', async () => {
  await db.run(SYSTEM, addJob({ type: 'endless', payload: '{}', maxAttempts: 2 }))
  const process = startProcess()
  await isRunning(1)
  // As after a kill: the lease runs out, and no heartbeat renews it.
  const expire = sql`update svc.jobs set worker = gen_random_uuid()::text, lease_until = now(), run_at = now()`
  await db.run(SYSTEM, expire)
  await isRunning(2)
  await db.run(SYSTEM, expire)
  await eventually(async () => assert.deepEqual(await jobs(), [ended(2)]))
  assert.equal(runs, 2)
  await process.stop()
})

test('a job that a stopping process interrupts at its last attempt has failed too', async () => {
  await db.run(SYSTEM, sql`truncate svc.jobs`)
  runs = 0
  const process = startProcess()
  await db.run(SYSTEM, addJob({ type: 'endless', payload: '{}', maxAttempts: 1 }))
  process.wake('job')
  await isRunning(1)
  await process.stop()
  await eventually(async () => assert.deepEqual(await jobs(), [ended(1)]))
  assert.equal(runs, 1)
})
