import { rfc3339, type Sql, sql } from '../../db/sql.ts'

export type Schedule = {
  id: string
  name: string
  jobType: string
  cronExpr: string
  timezone: string
  payload: string
  enabled: boolean
  maxAttempts: number
}
export type NewSchedule = Omit<Schedule, 'id'>

const SCHEDULE = sql`json_strip_nulls(json_build_object('id', s.id, 'name', s.name, 'jobType', s.job_type,
    'cronExpr', s.cron_expr, 'timezone', s.timezone, 'enabled', s.enabled, 'maxAttempts', s.max_attempts,
    'lastRunAt', ${rfc3339(sql`s.last_run_at`)}, 'createdAt', ${rfc3339(sql`s.created_at`)},
    'updatedAt', ${rfc3339(sql`s.updated_at`)}))::jsonb
  || jsonb_build_object('payload', s.payload, 'nextRunAt', ${rfc3339(sql`s.next_run_at`)})`

const ROW = sql`s.id::text as id, s.name, s.job_type as "jobType", s.cron_expr as "cronExpr", s.timezone,
  s.payload::text as payload, s.enabled, s.max_attempts as "maxAttempts"`

/** The clock that decides what is due. */
export const databaseNow: Sql = sql`select now() as now`

export const listSchedules: Sql = sql`
  select json_build_object('items', coalesce(json_agg(${SCHEDULE} order by s.name), '[]'), 'count', count(*))::text
  from svc.schedules s`

/** As the audit log shows it, without the payload. */
export const notedSchedule = (id: string): Sql => sql`
  select s.name, s.job_type as "jobType", s.cron_expr as "cronExpr", s.timezone, s.enabled, s.max_attempts as "maxAttempts"
  from svc.schedules s where s.id = ${id}::uuid`

/** Returns nothing when the name is taken. */
export const addSchedule = (schedule: NewSchedule, nextRunAt: Date | null): Sql => sql`
  insert into svc.schedules as s (name, job_type, cron_expr, timezone, payload, enabled, max_attempts, next_run_at)
  values (${schedule.name}, ${schedule.jobType}, ${schedule.cronExpr}, ${schedule.timezone}, ${schedule.payload}::jsonb,
    ${schedule.enabled}, ${schedule.maxAttempts}::int, ${nextRunAt}::timestamptz)
  on conflict (name) do nothing returning (${SCHEDULE})::text as record`

/** Default schedules that were created before, which is nearly always all of them. */
export const knownDefaults: Sql = sql`select now() as now, array(select name from svc.default_schedules) as names`

/** Returns nothing if this default was created before, even if changed or deleted since, or if the name is taken. */
export const addDefaultSchedule = (schedule: NewSchedule, nextRunAt: Date | null): Sql => sql`
  with fresh as (insert into svc.default_schedules (name) values (${schedule.name}) on conflict do nothing returning name)
  insert into svc.schedules (name, job_type, cron_expr, timezone, payload, enabled, max_attempts, next_run_at)
  select ${schedule.name}, ${schedule.jobType}, ${schedule.cronExpr}, ${schedule.timezone}, ${schedule.payload}::jsonb,
    ${schedule.enabled}, ${schedule.maxAttempts}::int, ${nextRunAt}::timestamptz
  from fresh on conflict (name) do nothing`

/** A name that the operator uses for another type of job stays the operator's. */
export const keepSchedule = (schedule: NewSchedule, nextRunAt: Date | null): Sql => sql`
  insert into svc.schedules as s (name, job_type, cron_expr, timezone, payload, enabled, max_attempts, next_run_at)
  values (${schedule.name}, ${schedule.jobType}, ${schedule.cronExpr}, ${schedule.timezone}, ${schedule.payload}::jsonb,
    ${schedule.enabled}, ${schedule.maxAttempts}::int, ${nextRunAt}::timestamptz)
  on conflict (name) do update set cron_expr = excluded.cron_expr, next_run_at = excluded.next_run_at, updated_at = now()
  where s.job_type = excluded.job_type and s.cron_expr <> excluded.cron_expr`

export const dropKeptSchedule = (name: string, jobType: string): Sql =>
  sql`delete from svc.schedules where name = ${name} and job_type = ${jobType}`

/** Locks the row until the change is written, so that concurrent changes do not mix. */
export const lockSchedule = (id: string): Sql =>
  sql`select ${ROW}, now() as now from svc.schedules s where s.id = ${id}::uuid for update`

export const changeSchedule = (schedule: Schedule, nextRunAt: Date | null): Sql => sql`
  update svc.schedules s set cron_expr = ${schedule.cronExpr}, timezone = ${schedule.timezone},
    payload = ${schedule.payload}::jsonb, enabled = ${schedule.enabled}, max_attempts = ${schedule.maxAttempts}::int,
    next_run_at = ${nextRunAt}::timestamptz, updated_at = now()
  where s.id = ${schedule.id}::uuid returning (${SCHEDULE})::text`

export const removeSchedule = (id: string): Sql => sql`delete from svc.schedules where id = ${id}::uuid returning id`

/** The row locks are held until `startDue` moves the rows on: one job per due time over all processes. */
export const dueSchedules = (limit: number): Sql => sql`
  select ${ROW}, now() as now from svc.schedules s where s.next_run_at <= now()
  order by s.next_run_at limit ${limit}::int for update skip locked`

export const startDue = (ids: readonly string[], nextRuns: readonly (Date | null)[]): Sql => sql`
  with moved as (
    update svc.schedules s set next_run_at = due.next, last_run_at = now()
    from unnest(${ids}::uuid[], ${nextRuns.map((at) => at?.toISOString() ?? null)}::timestamptz[]) as due(id, next)
    where s.id = due.id returning s.id, s.job_type, s.payload, s.max_attempts
  )
  insert into svc.jobs (type, payload, max_attempts, schedule_id)
  select job_type, payload, max_attempts, id from moved`

/** Milliseconds until the next run; null if none is planned. */
export const untilNext: Sql = sql`
  select ceil(extract(epoch from min(s.next_run_at) - clock_timestamp()) * 1000)::text
  from svc.schedules s where s.next_run_at is not null`
