import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testDatabase } from '../../../test/kit/database.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { JobHandler } from '../../core/job.ts'
import { Queue } from '../../db/queue/queue.ts'
import { sql } from '../../db/sql.ts'
import { Runner } from './runner.ts'
import { addJob, jobById } from './sql.ts'

const database = await testDatabase()
const db = await database.open()
const queue = new Queue({ db, observe: () => {}, pollMs: 50 })
queue.start()
database.atEnd(() => queue.stop())
const runner = new Runner({ db, queue, config: { worker_concurrency: 4, lease_duration: 60 }, onRun: () => {} })

let finish = () => {}
const handlers: Record<string, JobHandler> = {
  async tells({ log, progress }) {
    for (let i = 1; i <= 150; i++) log(`line ${i}\0${'x'.repeat(i === 150 ? 5_000 : 0)}`)
    progress(0.5)
    await new Promise<void>((resolve) => (finish = resolve))
    log('the end')
    progress(7)
  },
  async throws() {
    throw Object.assign(new Error('bro\0ken'), { code: 'X' })
  },
  rejects: () => Promise.reject('not even an error'),
  async rejectsLate() {
    void new Promise((_, reject) => setTimeout(() => reject(new Error('late')), 10)).catch(() => undefined)
  },
}
runner.work(handlers)

const queued = async (type: string, maxAttempts = 1) => {
  const text = await db.fly(SYSTEM, addJob({ type, payload: '{}', maxAttempts }))
  runner.wake()
  return (JSON.parse(text ?? '{}') as { id: string }).id
}
// biome-ignore lint/suspicious/noExplicitAny: tests look into jobs freely
const read = async (id: string): Promise<any> => JSON.parse((await db.fly(SYSTEM, jobById(id))) ?? '{}')

test('the last lines and the progress of a job can be read while it runs', async () => {
  const id = await queued('tells')
  await eventually(async () => {
    const { state, progress, log } = await read(id)
    assert.deepEqual([state, progress, log.length, log[0]], ['running', 0.5, 100, 'line 51'])
    assert.equal(log[99].length, 2_000)
  })
  finish()
  await eventually(async () => {
    const { state, progress, log } = await read(id)
    assert.deepEqual([state, progress, log.length, log[99]], ['completed', 1, 100, 'the end'])
  })
})

test('whatever a handler throws is the reason of the failure, and harms nobody else', async () => {
  const [broken, odd, late, unknown] = await Promise.all(
    ['throws', 'rejects', 'rejectsLate', 'nobody'].map((type) => queued(type)),
  )
  const ends = async (id: string | undefined, state: string, lastError: string | null = null) =>
    eventually(async () => {
      const job = await read(id ?? '')
      assert.deepEqual([job.state, job.lastError], [state, lastError])
    })
  await ends(broken, 'failed', 'broken')
  await ends(odd, 'failed', 'not even an error')
  await ends(late, 'completed')
  await ends(unknown, 'failed', 'no handler for job type: nobody')
})

test('a job that never ends loses its place, hears of it, and is a failed attempt', async () => {
  const other = await testDatabase()
  const apart = await other.open()
  const hours = new Queue({ db: apart, observe: () => {}, pollMs: 50 })
  hours.start()
  other.atEnd(() => hours.stop())
  const config = { worker_concurrency: 1, lease_duration: 60 }
  const impatient = new Runner({ db: apart, queue: hours, config, onRun: () => {}, longestRunMs: 300 })
  let isAborted = false
  impatient.work({
    async endless({ signal }) {
      signal.addEventListener('abort', () => (isAborted = true))
      await new Promise(() => {})
    },
    async next() {},
  })
  await apart.run(SYSTEM, [
    addJob({ type: 'endless', payload: '{}', maxAttempts: 1 }),
    addJob({ type: 'next', payload: '{}', maxAttempts: 1 }),
  ])
  impatient.wake()
  await eventually(async () => {
    const rows = await apart.rows(SYSTEM, sql`select type, state, last_error from svc.jobs order by type`)
    assert.deepEqual(rows, [
      { type: 'endless', state: 'failed', last_error: 'the job took too long' },
      { type: 'next', state: 'completed', last_error: null },
    ])
  })
  assert.ok(isAborted)
})
