import type pg from 'pg'
import { timesOf } from '../../../features/jobs/scheduler.ts'
import { ADOPTED_OWNER } from '../adopted-owner.ts'
import { withSavepoint } from '../database/savepoint.ts'
import type { Note } from '../plan.ts'
import type { SourceJob } from './extras.ts'
import type { SourceBucket } from './storage-schema.ts'

/** Policies decide about every bucket, as there; within a transaction. */
export async function makeBuckets(client: pg.Client, buckets: readonly SourceBucket[], notes: Note[]): Promise<void> {
  for (const { id, name, maxSize, types } of buckets) {
    const { rowCount } = await client.query(
      `insert into svc.storage_buckets (name, access, max_size, allowed_types) select $1, 'policies', $2::bigint, $3::text[]
       where not exists (select from svc.objects o where o.bucket = $1) on conflict (name) do nothing`,
      [name, maxSize, types],
    )
    if (rowCount === 0)
      throw new Error(`there is a bucket ${name} already, so the bucket ${id} of Supabase has no place`)
    await client.query(`insert into svc.adopted (source, kind, key) values ('supabase', 'bucket', $1)`, [name])
  }
  if (buckets.length > 0)
    notes.push({
      level: 'changed',
      what: `${buckets.length} buckets`,
      why: 'policies on svc.objects decide about their files',
    })
}

/**
 * A command becomes a function that only its schedule may call. In place, pg_cron goes on with its jobs: the schedules
 * wait until an administrator enables them.
 */
export async function makeSchedules(
  client: pg.Client,
  jobs: readonly SourceJob[],
  { isInPlace }: { isInPlace: boolean },
  notes: Note[],
): Promise<void> {
  for (const [index, job] of jobs.entries()) {
    const skip = (why: string): void => {
      notes.push({ level: 'skipped', what: `cron job ${job.name}`, why })
    }
    let next: Date | undefined
    try {
      next = timesOf(job.expression, 'UTC').next(new Date())
    } catch (error) {
      skip((error as Error).message)
      continue
    }
    const role = isInPlace ? job.role : ADOPTED_OWNER
    const { rows } = await client.query<{ fit: string }>(
      `select (not rolsuper)::text as fit from pg_catalog.pg_roles where rolname = $1`,
      [role],
    )
    if (rows[0]?.fit !== 'true') {
      skip(`it runs as ${role}, which may do everything: schedule a function of a lesser role by hand`)
      continue
    }
    const slug = job.name
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '_')
      .slice(0, 40)
    const fn = `cron_${index + 1}_${slug}`
    const failed = await withSavepoint(client, async () => {
      const tag = `$job_${index + 1}$`
      if (job.command.includes(tag)) throw new Error('its command cannot be quoted')
      await client.query('set local check_function_bodies = off')
      await client.query(`grant create on schema public to ${ADOPTED_OWNER}`)
      await client.query(`set local role ${ADOPTED_OWNER}`)
      await client.query(
        `create function public.${fn}() returns void language sql set search_path = public, extensions as ${tag} ${job.command.replace(/;\s*$/, '')} ${tag}`,
      )
      await client.query(`revoke all on function public.${fn}() from public`)
      if (role !== ADOPTED_OWNER)
        await client.query(`grant execute on function public.${fn}() to "${role.replaceAll('"', '""')}"`)
      await client.query('reset role')
      await client.query(`revoke create on schema public from ${ADOPTED_OWNER}`)
      const isOn = job.isActive && !isInPlace
      await client.query(
        `insert into svc.schedules (name, job_type, cron_expr, timezone, payload, enabled, max_attempts, next_run_at)
         values ($1, 'sql', $2, 'UTC', $3::jsonb, $4::boolean, 1, case when $4::boolean then $5::timestamptz end)`,
        [
          `supabase ${job.name}`,
          job.expression,
          JSON.stringify({ function: `public.${fn}`, role }),
          isOn,
          next?.toISOString() ?? null,
        ],
      )
      await client.query(`insert into svc.adopted (source, kind, key, target) values ('supabase', 'job', $1, $2)`, [
        fn,
        `supabase ${job.name}`,
      ])
    })
    if (failed) {
      skip(failed.message)
      continue
    }
    notes.push({
      level: 'changed',
      what: `cron job ${job.name}`,
      why: isInPlace
        ? `is the schedule supabase ${job.name}, disabled while pg_cron has it`
        : `is the schedule supabase ${job.name}`,
    })
  }
}
