import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, spawnServer, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'jobs.scheduler_enabled': true, 'jobs.scheduler_tick': 1 } })
const asAdmin = { as: 'admin' }
const create = (json: object) => api.call('POST /api/admin/schedules', { ...asAdmin, json })
const jobsOf = async (id: string) =>
  (await api.sql(`select state, last_error, attempts from svc.jobs where schedule_id = $1`, [id])) as {
    state: string
    last_error: string | null
    attempts: string
  }[]
const makeDue = (id: string, ago = '1 second') =>
  api.sql(`update svc.schedules set next_run_at = now() - $2::interval where id = $1`, [id, ago])

await api.sql(`create table public.ticks (n int);
  create function public.tick(n int) returns void language sql as 'insert into public.ticks values (n)';`)

test('the schedules of the server are made once: edited or deleted they stay so', async () => {
  const { body } = await api.call('GET /api/admin/schedules', asAdmin)
  const made = body.items.map(({ name, cronExpr }: { name: string; cronExpr: string }) => `${name} ${cronExpr}`)
  for (const line of [
    'audit_log_retention_daily 0 2 * * *',
    'change_log_trim_hourly 30 * * * *',
    'expired_auth_cleanup_daily 0 5 * * *',
    'session_cleanup_hourly 0 * * * *',
    'webhook_delivery_prune_daily 0 3 * * *',
  ]) {
    assert.ok(made.includes(line), line)
  }
  assert.equal(body.count, body.items.length)
  assert.deepEqual(made, [...made].sort())
  const [first, second] = body.items
  await api.call(`DELETE /api/admin/schedules/${first.id}`, asAdmin)
  await api.call(`PUT /api/admin/schedules/${second.id}`, { ...asAdmin, json: { cronExpr: '1 1 1 1 *' } })
  const other = await startServer({ on: api })
  const after = (await other.call('GET /api/admin/schedules', asAdmin)).body
  assert.equal(after.count, body.count - 1)
  assert.equal(after.items[0].cronExpr, '1 1 1 1 *')
})

test('a schedule runs when it is due, and what was missed is run once', async () => {
  const { status, body } = await create({
    name: 'ticker',
    jobType: 'sql',
    cronExpr: '0 0 1 1 *',
    timezone: 'Europe/Berlin',
    payload: { function: 'tick', args: { n: 7 }, role: 'svc_anon' },
  })
  assert.equal(status, 201)
  assert.match(body.nextRunAt, /-12-31T23:00:00\.000Z$/)
  assert.equal(body.maxAttempts, 3)
  await makeDue(body.id, '1 year')
  await eventually(async () =>
    assert.deepEqual(
      (await jobsOf(body.id)).map(({ state }) => state),
      ['completed'],
    ),
  )
  const [row] = await api.sql(
    `select next_run_at > now() as later, last_run_at is not null as ran from svc.schedules where id = $1`,
    [body.id],
  )
  assert.deepEqual([row.later, row.ran], ['t', 't'])
  assert.equal((await api.sql(`select from public.ticks where n = 7`)).length, 1)
})

test('a year of missed days is one job, and the next day is the next', async () => {
  const farHour = (new Date().getUTCHours() + 12) % 24
  const json = { name: 'daily', jobType: 'change_log_trim', cronExpr: `0 ${farHour} * * *` }
  const { body } = await create(json)
  await makeDue(body.id, '1 year')
  const after = await eventually(async () => {
    const { items } = (await api.call('GET /api/admin/schedules', asAdmin)).body
    const found = items.find(({ name }: { name: string }) => name === 'daily')
    assert.ok(found.lastRunAt)
    return found
  })
  assert.equal(after.nextRunAt, body.nextRunAt)
  // Whatever else the schedule might have made is older than this one.
  const marker = await create({ name: 'marker', jobType: 'change_log_trim', cronExpr: '0 0 1 1 *' })
  await makeDue(marker.body.id)
  await eventually(async () => assert.equal((await jobsOf(marker.body.id))[0]?.state, 'completed'))
  assert.equal((await jobsOf(body.id)).length, 1)
})

test('a disabled schedule does not run; enabled after a year it waits for its next time', async () => {
  const { body } = await create({ name: 'sleeper', jobType: 'change_log_trim', cronExpr: '* * 1 1 *', enabled: false })
  assert.equal(body.nextRunAt, null)
  await api.sql(
    `update svc.schedules set created_at = now() - interval '1 year', updated_at = created_at where id = $1`,
    [body.id],
  )
  const enabled = await api.call(`POST /api/admin/schedules/${body.id}/enable`, asAdmin)
  assert.ok(new Date(enabled.body.nextRunAt) > new Date(), 'in the future')
  const disabled = await api.call(`POST /api/admin/schedules/${body.id}/disable`, asAdmin)
  assert.deepEqual([disabled.status, disabled.body.enabled, disabled.body.nextRunAt], [200, false, null])
  assert.deepEqual(await jobsOf(body.id), [])
  const run = await api.call(`POST /api/admin/schedules/${body.id}/run`, asAdmin)
  assert.deepEqual([run.status, run.body.scheduleId, run.body.type], [201, body.id, 'change_log_trim'])
  await eventually(async () =>
    assert.deepEqual(
      (await jobsOf(body.id)).map(({ state }) => state),
      ['completed'],
    ),
  )
})

test('a schedule of an unknown type fails when it runs, at once and without retry', async () => {
  const { body } = await create({ name: 'nobody', jobType: 'no_such_type', cronExpr: '0 0 1 1 *' })
  await makeDue(body.id)
  await eventually(async () =>
    assert.deepEqual(await jobsOf(body.id), [
      { state: 'failed', last_error: 'no handler for job type: no_such_type', attempts: '1' },
    ]),
  )
})

test('changes keep what they do not name, and bad ones are refused', async () => {
  const { body } = await create({ name: 'kept', jobType: 'change_log_trim', cronExpr: '5 4 * * *', payload: { a: 1 } })
  const put = (json: object) => api.call(`PUT /api/admin/schedules/${body.id}`, { ...asAdmin, json })
  const changed = await put({ timezone: 'Asia/Tokyo', name: 'other', jobType: 'other', cronExpr: '' })
  const { name, jobType, cronExpr, timezone, payload } = changed.body
  assert.deepEqual(
    { name, jobType, cronExpr, timezone, payload },
    { name: 'kept', jobType: 'change_log_trim', cronExpr: '5 4 * * *', timezone: 'Asia/Tokyo', payload: { a: 1 } },
  )
  assert.notEqual(changed.body.nextRunAt, body.nextRunAt)
  const told = async (answer: ReturnType<typeof create>) => {
    const { status, body: error } = await answer
    return `${status} ${error.message}`
  }
  const good = { name: 'x', jobType: 'y', cronExpr: '* * * * *' }
  assert.equal(await told(put({ cronExpr: '0 0 31 2 *' })), '400 invalid cron expression')
  assert.equal(await told(put({ timezone: 'Mars/X' })), '400 invalid timezone')
  assert.equal(await told(put({ maxAttempts: 0 })), '400 maxAttempts must be at least 1')
  assert.equal(await told(create({ ...good, name: '' })), '400 name is required')
  assert.equal(await told(create({ ...good, name: ' ' })), '400 name is required')
  assert.equal(await told(create({ ...good, jobType: null })), '400 jobType is required')
  assert.equal(await told(create({ name: 'x', jobType: 'y' })), '400 cronExpr is required')
  assert.equal(await told(create({ ...good, cronExpr: '@hourly' })), '400 invalid cron expression')
  assert.equal(await told(create({ ...good, name: 'n'.repeat(101) })), '400 name must be at most 100 characters')
  assert.equal(await told(create({ ...good, jobType: 'n'.repeat(101) })), '400 jobType must be at most 100 characters')
  assert.equal(await told(create({ ...good, payload: 'x' })), '400 payload must be an object')
  assert.equal(await told(create({ ...good, name: 'kept' })), '409 schedule name already exists')
  const nobody = '00000000-0000-4000-8000-000000000000'
  for (const line of [`PUT /api/admin/schedules/${nobody}`, `POST /api/admin/schedules/${nobody}/run`] as const) {
    assert.equal(await told(api.call(line, { ...asAdmin, json: {} })), '404 schedule not found')
  }
  assert.equal(await told(api.call('DELETE /api/admin/schedules/x', asAdmin)), '400 invalid schedule id format')
  assert.equal((await api.call(`DELETE /api/admin/schedules/${body.id}`, asAdmin)).status, 204)
  assert.equal(await told(api.call(`DELETE /api/admin/schedules/${body.id}`, asAdmin)), '404 schedule not found')
})

test('a schedule that nobody understands any more runs for the last time and holds up no other', async () => {
  await api.sql(`insert into svc.schedules (name, job_type, cron_expr, timezone, max_attempts, next_run_at)
    values ('lost zone', 'change_log_trim', '0 0 1 1 *', 'Europe/Atlantis', 3, now() - interval '2 seconds'),
      ('lost words', 'change_log_trim', 'whenever', 'UTC', 3, now() - interval '2 seconds'),
      ('well', 'change_log_trim', '0 0 1 1 *', 'UTC', 3, now() - interval '1 second')`)
  await eventually(async () =>
    assert.deepEqual(
      await api.sql(`select s.name, s.next_run_at is null as over, count(*)::int as jobs
        from svc.schedules s join svc.jobs j on j.schedule_id = s.id
        where s.name in ('lost zone', 'lost words', 'well') group by s.id order by s.name`),
      [
        { name: 'lost words', over: 't', jobs: '1' },
        { name: 'lost zone', over: 't', jobs: '1' },
        { name: 'well', over: 'f', jobs: '1' },
      ],
    ),
  )
})

test('of 1,000 schedules due at once on two processes each runs exactly once', async () => {
  await api.sql(`create table public.claims (job uuid, n int);
    create function public.note_claim() returns trigger language plpgsql security definer
      as $$ begin insert into public.claims values (new.id, new.attempts - old.attempts); return null; end $$;
    create trigger claims after update on svc.jobs for each row
      when (new.attempts <> old.attempts) execute function public.note_claim()`)
  await api.stop()
  const config = { 'jobs.scheduler_enabled': true, 'jobs.scheduler_tick': 1 }
  await Promise.all([spawnServer({ on: api, config }), spawnServer({ on: api, config })])
  await api.sql(`insert into svc.schedules (name, job_type, cron_expr, timezone, max_attempts, next_run_at)
    select 'crowd ' || n, 'unverified_totp_cleanup', '0 0 1 1 *', 'America/New_York', 3, now() + interval '500 milliseconds'
    from generate_series(1, 1000) n`)
  const jobs = () =>
    api.sql(`select j.state, j.attempts, count(*)::int as n, count(distinct j.schedule_id)::int as schedules
      from svc.jobs j join svc.schedules s on s.id = j.schedule_id where s.name like 'crowd %' group by 1, 2`)
  await eventually(async () =>
    assert.deepEqual(await jobs(), [{ state: 'completed', attempts: '1', n: '1000', schedules: '1000' }]),
  )
  const [claims] = await api.sql(`select sum(c.n)::int as n from public.claims c
    join svc.jobs j on j.id = c.job join svc.schedules s on s.id = j.schedule_id where s.name like 'crowd %'`)
  assert.equal(claims.n, '1000')
  const [left] = await api.sql(`select count(*)::int as n from svc.schedules where next_run_at <= now()`)
  assert.equal(left.n, '0')
})
