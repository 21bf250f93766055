import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const asAdmin = { as: 'admin' }
const create = async (json: object) => (await api.call('POST /api/admin/jobs', { ...asAdmin, json })).body
const read = async (id: string) => (await api.call(`GET /api/admin/jobs/${id}`, asAdmin)).body
const become = (id: string, state: string) =>
  eventually(async () => {
    const job = await read(id)
    assert.equal(job.state, state)
    return job
  })
/** A failed job without waiting for its retries. */
const failed = async () => {
  const [row] = await api.sql(
    `insert into svc.jobs (type, state, max_attempts, attempts, last_error, finished_at)
     values ('stale_session_cleanup', 'failed', 3, 3, 'boom', now()) returning id`,
  )
  return row.id as string
}

test('a cleanup is queued, runs, and tells what it did', async () => {
  const cleanUp = async () => {
    await api.signUp(`${randomUUID()}@x.test`)
    await api.sql(`update svc.sessions set expires_at = now() - interval '1 day'`)
    const made = await api.call('POST /api/admin/jobs', { ...asAdmin, json: { type: 'stale_session_cleanup' } })
    assert.equal(made.status, 201)
    const { state, attempts, maxAttempts, payload } = made.body
    assert.deepEqual(
      { state, attempts, maxAttempts, payload },
      { state: 'queued', attempts: 0, maxAttempts: 3, payload: {} },
    )
    const job = await become(made.body.id, 'completed')
    assert.deepEqual(job.log, ['removed 1'])
    return job
  }
  // The server's own sweep, ten seconds after its start, may have been there first.
  const job = await cleanUp().catch(cleanUp)
  assert.equal(job.attempts, 1)
  assert.ok(job.completedAt && job.lastRunAt)
  assert.equal(job.workerId, undefined)
  assert.equal(job.leaseUntil, undefined)
})

test('every type of the server is known, and another is refused', async () => {
  for (const type of [
    'stale_session_cleanup',
    'expired_auth_cleanup',
    'webhook_delivery_prune',
    'audit_log_retention',
    'change_log_trim',
    'kept_answer_cleanup',
    'anonymous_account_cleanup',
    'unverified_totp_cleanup',
    'storage_orphan_sweep',
    'expired_oauth_cleanup',
  ]) {
    await become((await create({ type })).id, 'completed')
  }
  // Without what they need they fail, but they are known.
  for (const type of ['materialized_view_refresh', 'cdn_purge', 'sql', 'http', 'backup', 'backup_verify']) {
    await become((await create({ type })).id, 'failed')
  }
  const { status, body } = await api.call('POST /api/admin/jobs', { ...asAdmin, json: { type: 'nope' } })
  assert.deepEqual([status, body.message], [400, 'unknown job type: nope'])
})

test('a key makes one job, however many ask at once', async () => {
  const json = { type: 'change_log_trim', idempotencyKey: 'only-one' }
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => api.call('POST /api/admin/jobs', { ...asAdmin, json })),
  )
  assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(19).fill(200), 201])
  assert.equal(new Set(answers.map(({ body }) => body.id)).size, 1)
})

test('a job waits for its time, can be canceled once, and is never run', async () => {
  const runAt = '2099-01-01T00:00:00.000Z'
  const { id } = await create({ type: 'change_log_trim', runAt })
  assert.equal((await read(id)).runAt, runAt)
  const canceled = await api.call(`POST /api/admin/jobs/${id}/cancel`, asAdmin)
  assert.equal(canceled.status, 200)
  assert.equal(canceled.body.state, 'canceled')
  assert.ok(canceled.body.canceledAt)
  const again = await api.call(`POST /api/admin/jobs/${id}/cancel`, asAdmin)
  assert.deepEqual([again.status, again.body.message], [409, 'job is not queued'])
})

test('fifty retries of one failed job queue it once', async () => {
  const id = await failed()
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => api.call(`POST /api/admin/jobs/${id}/retry`, asAdmin)),
  )
  const good = answers.filter(({ status }) => status === 200)
  assert.equal(good.length, 1)
  const { state, attempts, lastError } = good[0]?.body ?? {}
  assert.deepEqual({ state, attempts, lastError }, { state: 'queued', attempts: 0, lastError: null })
  for (const { status, body } of answers) if (status !== 200) assert.equal(body.message, 'job is not failed')
  assert.equal((await become(id, 'completed')).attempts, 1)
  const late = await api.call(`POST /api/admin/jobs/${id}/retry`, asAdmin)
  assert.deepEqual([late.status, late.body.message], [409, 'job is not failed'])
})

test('jobs are listed newest first, by state and type', async () => {
  const id = await failed()
  const { body } = await api.call('GET /api/admin/jobs?state=failed&type=stale_session_cleanup', asAdmin)
  assert.equal(body.items[0].id, id)
  assert.equal(body.count, body.items.length)
  assert.equal(body.items[0].lastError, 'boom')
  const one = await api.call('GET /api/admin/jobs?limit=1&offset=0', asAdmin)
  assert.equal(one.body.count, 1)
  const stats = await api.call('GET /api/admin/jobs/stats', asAdmin)
  assert.ok(stats.body.failed >= 1 && stats.body.completed >= 1)
  assert.equal(stats.body.oldestQueuedAgeSec, 0)
  await create({ type: 'change_log_trim', runAt: '2099-01-01T00:00:00Z' })
  assert.ok((await api.call('GET /api/admin/jobs/stats', asAdmin)).body.oldestQueuedAgeSec >= 0)
  await eventually(async () =>
    assert.match((await api.call('GET /metrics', asAdmin)).text, /svc_jobs\{state="failed"\} [1-9]/),
  )
})

test('bad input is refused in the words of the contract', async () => {
  const told = async (line: Parameters<typeof api.call>[0], json?: unknown) => {
    const { status, body } = await api.call(line, { ...asAdmin, ...(json !== undefined && { json }) })
    return [status, body.message]
  }
  const type = 'change_log_trim'
  assert.deepEqual(await told('POST /api/admin/jobs', {}), [400, 'type is required'])
  assert.deepEqual(await told('POST /api/admin/jobs', { type, payload: [] }), [400, 'payload must be an object'])
  assert.deepEqual(await told('POST /api/admin/jobs', { type, runAt: 'soon' }), [400, 'invalid runAt format'])
  assert.deepEqual(await told('POST /api/admin/jobs', { type, maxAttempts: 0 }), [
    400,
    'maxAttempts must be at least 1',
  ])
  assert.deepEqual(await told('POST /api/admin/jobs', { type, payload: { a: 'x'.repeat(2_000_000) } }), [
    413,
    'request body too large',
  ])
  assert.deepEqual(await told('GET /api/admin/jobs?state=x'), [
    400,
    'invalid state filter; must be one of: queued, running, completed, failed, canceled',
  ])
  assert.deepEqual(await told('GET /api/admin/jobs/x'), [400, 'invalid job id format'])
  for (const line of ['GET /api/admin/jobs/', 'POST /api/admin/jobs/'] as const) {
    const id = '00000000-0000-4000-8000-000000000000'
    const path = line.startsWith('GET') ? `${line}${id}` : `${line}${id}/retry`
    assert.deepEqual(await told(path as 'GET /'), [404, 'job not found'])
  }
  assert.equal((await api.call('GET /api/admin/jobs')).status, 401)
  assert.equal((await create({ type, payload: { ['__proto__']: { x: 1 }, n: 1 } })).payload.n, 1)
})

test('with jobs switched off every endpoint says so, and nothing runs', async () => {
  const off = await startServer({ on: api, config: { 'jobs.enabled': false } })
  const id = '00000000-0000-4000-8000-000000000000'
  for (const line of [
    'GET /api/admin/jobs',
    'POST /api/admin/jobs',
    'GET /api/admin/jobs/stats',
    `GET /api/admin/jobs/${id}`,
    `POST /api/admin/jobs/${id}/retry`,
    `POST /api/admin/jobs/${id}/cancel`,
    'GET /api/admin/schedules',
    'POST /api/admin/schedules',
    `PUT /api/admin/schedules/${id}`,
    `DELETE /api/admin/schedules/${id}`,
    `POST /api/admin/schedules/${id}/enable`,
    `POST /api/admin/schedules/${id}/run`,
    'GET /api/admin/jobs/no-id',
    'PUT /api/admin/schedules/no-id',
  ] as const) {
    const { status, body } = await off.call(line, asAdmin)
    assert.deepEqual([status, body.message], [503, 'job queue is not enabled'], line)
  }
})

test('finished jobs are kept for as long as configured', async () => {
  const old = await failed()
  await api.sql(`update svc.jobs set finished_at = now() - interval '8 days' where id = '${old}'`)
  const kept = await failed()
  await startServer({ on: api })
  // The first sweep is a while after the start.
  const isGone = async () => assert.equal((await api.call(`GET /api/admin/jobs/${old}`, asAdmin)).status, 404)
  await eventually(isGone)
  assert.equal((await read(kept)).state, 'failed')
})
