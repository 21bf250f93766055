import { EMPTY, rfc3339, type Sql, sql } from '../../db/sql.ts'

export const STATES = ['queued', 'running', 'completed', 'failed', 'canceled'] as const
export type JobState = (typeof STATES)[number]

/** A running job with an expired lease counts as queued, since its process died. `worker is not null` selects the index. */
const IS_RUNNING = sql`j.state = 'running' and j.worker is not null and j.lease_until > now()`
const IS_QUEUED = sql`(j.state = 'queued' or j.state = 'running' and j.worker is not null and j.lease_until <= now())`

const JOB = sql`json_strip_nulls(json_build_object('id', j.id, 'type', j.type,
    'state', case when ${IS_QUEUED} then 'queued' else j.state end,
    'attempts', j.attempts, 'maxAttempts', j.max_attempts, 'runAt', ${rfc3339(sql`j.planned_at`)},
    'leaseUntil', ${rfc3339(sql`j.lease_until`)}, 'workerId', j.worker, 'lastRunAt', ${rfc3339(sql`j.last_run_at`)},
    'idempotencyKey', j.idempotency_key, 'scheduleId', j.schedule_id,
    'progress', j.progress, 'log', nullif(j.log, '{}'),
    'completedAt', case when j.state = 'completed' then ${rfc3339(sql`j.finished_at`)} end,
    'canceledAt', case when j.state = 'canceled' then ${rfc3339(sql`j.finished_at`)} end,
    'createdAt', ${rfc3339(sql`j.created_at`)}, 'updatedAt', ${rfc3339(sql`j.updated_at`)}))::jsonb
  || jsonb_build_object('payload', j.payload, 'lastError', j.last_error)`

export type NewJob = {
  type: string
  payload: string
  maxAttempts: number
  runAt?: string | undefined
  idempotencyKey?: string | undefined
  scheduleId?: string | undefined
}

/** Returns the job, or nothing if its idempotency key was used before. */
export const addJob = (job: NewJob): Sql => sql`
  insert into svc.jobs as j (type, payload, max_attempts, planned_at, run_at, idempotency_key, schedule_id)
  select ${job.type}, ${job.payload}::jsonb, ${job.maxAttempts}::int, at, at, ${job.idempotencyKey ?? null}::text,
    ${job.scheduleId ?? null}::uuid
  from coalesce(${job.runAt ?? null}::timestamptz, now()) as at
  on conflict (idempotency_key) where idempotency_key is not null do nothing
  returning (${JOB})::text as record`

/** A job for each row (id, payload) of a query. */
export const addJobs = (type: string, rows: Sql, maxAttempts: number): Sql => sql`
  insert into svc.jobs (id, type, payload, max_attempts)
  select rows.id, ${type}, rows.payload, ${maxAttempts}::int from (${rows}) rows`

export const jobByKey = (key: string): Sql =>
  sql`select (${JOB})::text from svc.jobs j where j.idempotency_key = ${key}`

export const jobById = (id: string): Sql => sql`select (${JOB})::text from svc.jobs j where j.id = ${id}::uuid`

const inState = (state: JobState): Sql => {
  if (state === 'queued') return IS_QUEUED
  return state === 'running' ? IS_RUNNING : sql`j.state = ${state}`
}

export const listJobs = (query: {
  state: JobState | undefined
  type: string | undefined
  limit: number
  offset: number
}): Sql => sql`
  select json_build_object('items', coalesce(json_agg(page.job), '[]'), 'count', count(*))::text from (
    select ${JOB} as job from svc.jobs j
    where true ${query.state === undefined ? EMPTY : sql`and ${inState(query.state)}`}
      ${query.type === undefined ? EMPTY : sql`and j.type = ${query.type}`}
    order by j.created_at desc, j.id desc limit ${query.limit}::int offset ${query.offset}::bigint) page`

/** Each count reads its own index; completed jobs are counted by subtraction, so that the many finished ones need an index-only scan. */
export const countJobs: Sql = sql`
  with queued as (select count(*) as jobs, min(j.created_at) as oldest from svc.jobs j where ${IS_QUEUED}),
  ended as (select count(*) as jobs from svc.jobs j where j.finished_at is not null),
  in_vain as (
    select count(*) as jobs, count(*) filter (where j.state = 'failed') as failed from svc.jobs j
    where j.state in ('failed', 'canceled')
  )
  select json_build_object(
    'queued', queued.jobs, 'running', (select count(*) from svc.jobs j where ${IS_RUNNING}),
    'completed', ended.jobs - in_vain.jobs, 'failed', in_vain.failed, 'canceled', in_vain.jobs - in_vain.failed,
    'oldestQueuedAgeSec', coalesce(extract(epoch from now() - queued.oldest), 0))::text
  from queued, ended, in_vain`

/** {exists, job}: whether the job exists, and its new record if its state allowed the change. */
const changed = (id: string, change: Sql): Sql => sql`
  with changed as (update svc.jobs j set ${change} and j.id = ${id}::uuid returning (${JOB})::text as job)
  select json_build_object('exists', exists (select from svc.jobs where id = ${id}::uuid),
    'job', (select job from changed))::text`

export const retryJob = (id: string): Sql =>
  changed(
    id,
    sql`state = 'queued', attempts = 0, last_error = null, planned_at = now(), run_at = now(), finished_at = null,
      progress = null, updated_at = now() where j.state = 'failed'`,
  )

export const cancelJob = (id: string): Sql =>
  changed(
    id,
    sql`state = 'canceled', worker = null, lease_until = null, finished_at = now(), updated_at = now()
      where ${IS_QUEUED}`,
  )

export const LOG_LINES = 100

/** Writes only if this attempt still holds the job. */
export const noteProgress = (
  run: { id: string; attempt: number; worker: string },
  lines: readonly string[],
  progress: number | undefined,
): Sql => sql`
  update svc.jobs set updated_at = now(), progress = coalesce(${progress ?? null}::real, progress),
    log = (log || ${lines}::text[])[greatest(1, cardinality(log) + ${lines.length}::int - ${LOG_LINES - 1}):]
  where id = ${run.id}::uuid and attempts = ${run.attempt}::int and worker = ${run.worker}`

export const isUnderWay = (id: Sql): Sql =>
  sql`exists (select from svc.jobs j where j.id = ${id} and j.finished_at is null)`

export const pruneJobs = (retentionSeconds: number, limit: number): Sql => sql`
  delete from svc.jobs where id in (
    select id from svc.jobs where finished_at < now() - make_interval(secs => ${retentionSeconds})
    order by finished_at limit ${limit}::int for update skip locked)`
