import type { AuditSource } from '../../core/audit-entry.ts'
import { AppError, badRequest, found, notFound, reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { JobHandler } from '../../core/job.ts'
import * as t from '../../core/json-type.ts'
import type { Metrics } from '../../core/metrics.ts'
import type { Observe } from '../../core/observe.ts'
import { limitOf } from '../../core/page.ts'
import { maskJson } from '../../core/redact.ts'
import { audited, changeAudited, MADE_RECORD } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { Loop } from '../../db/loop.ts'
import type { Queue } from '../../db/queue/queue.ts'
import type { Sql } from '../../db/sql.ts'
import { sweep } from '../../db/sweep.ts'
import type { Feature } from '../../http/feature.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { jsonText, type Route, requireEnabled, route } from '../../http/route.ts'
import { httpJob } from './http-job.ts'
import { requireRoleOfRequests } from './job-role.ts'
import { job } from './job-schema.ts'
import { Runner } from './runner.ts'
import { scheduleRoutes } from './schedule-routes.ts'
import { JobScheduler } from './scheduler.ts'
import { Schedules } from './schedules.ts'
import * as q from './sql.ts'

type JobsConfig = {
  enabled: boolean
  worker_concurrency: number
  lease_duration: number
  max_attempts: number
  retention: number
  scheduler_enabled: boolean
  scheduler_tick: number
}

const MAX_NAME = 100
const MAX_KEY = 255
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/i
const COUNT_EVERY_MS = 5_000

const newJob = t.object({
  type: t.string({ maxLength: MAX_NAME }),
  payload: t.optional(t.record(t.any())),
  runAt: t.optional(t.string({ description: 'RFC 3339; default now' })),
  maxAttempts: t.optional(t.integer({ minimum: 1, maximum: 1000 })),
  idempotencyKey: t.optional(t.string({ maxLength: MAX_KEY })),
})

const counts = t.object({
  queued: t.integer(),
  running: t.integer(),
  completed: t.integer(),
  failed: t.integer(),
  canceled: t.integer(),
  oldestQueuedAgeSec: t.number({ description: '0 when nothing is queued' }),
})

export type Jobs = Feature & {
  /** Starts running queued jobs with these handlers. Called once, after all features are created. */
  work(handlers: Readonly<Record<string, JobHandler>>): Promise<void>
  /** A statement for the caller's own flight: a job for each row (id, payload) of a query. */
  queueEach(type: string, rows: Sql, maxAttempts: number): Sql
  /** Call after that flight. */
  wake(): void
  /** A schedule as the configuration has it; an empty expression removes it. */
  keepSchedule(name: string, jobType: string, cronExpr: string): Promise<void>
  /** A condition: the job of this id is queued or running. */
  isUnderWay(id: Sql): Sql
}

export function createJobs(deps: {
  db: Db
  queue: Queue
  observe: Observe
  /** Called for each run of a job. */
  onRun: () => void
  metrics: Metrics
  /** For URLs that come from job payloads. */
  outgoing: Outgoing
  version: string
  config: JobsConfig
}): Jobs {
  const { db, observe, metrics, config } = deps
  const runner = new Runner(deps)
  const scheduler = new JobScheduler({ db, observe, tickSeconds: config.scheduler_tick, onQueued: () => runner.wake() })
  const schedules = new Schedules({ db, onChange: () => scheduler.wake() })
  const loops: Loop[] = []
  let counted: Readonly<Record<string, number>> = {}
  metrics.gauge(
    'svc_jobs',
    'Jobs that are kept, by state.',
    ['state'],
    () => q.STATES.map((state) => ({ labels: [state], value: counted[state] ?? 0 })),
    'max',
  )
  const requires = requireEnabled(config.enabled, () => new AppError('service_disabled', 'job queue is not enabled'))
  return {
    routes: [
      ...jobRoutes({ db, runner, requires, maxAttempts: config.max_attempts }),
      ...scheduleRoutes({ schedules, requires, onQueued: () => runner.wake() }),
    ],
    jobs: { http: httpJob(deps) },
    queueEach: q.addJobs,
    wake: () => runner.wake(),
    isUnderWay: q.isUnderWay,
    keepSchedule: (name, jobType, cronExpr) => schedules.keep(name, jobType, cronExpr),
    async work(handlers) {
      if (!config.enabled) return
      runner.work(handlers)
      await schedules.createDefaults((type) => runner.knows(type))
      if (config.scheduler_enabled) scheduler.start()
      const count = async (): Promise<undefined> => {
        counted = JSON.parse((await db.fly(SYSTEM, q.countJobs)) ?? '{}')
      }
      const notCounted = (error: unknown): void =>
        observe({ message: 'jobs not counted', attrs: { error: reasonOf(error) } })
      loops.push(
        new Loop({ step: count, everyMs: COUNT_EVERY_MS, onFailure: notCounted }),
        sweep({ db, observe, what: 'finished jobs', remove: [(limit) => q.pruneJobs(config.retention, limit)] }),
      )
    },
    async stop() {
      await Promise.all([scheduler.stop(), ...loops.map((loop) => loop.stop())])
    },
  }
}

function jobRoutes(deps: { db: Db; runner: Runner; requires: () => void; maxAttempts: number }): Route[] {
  const { db, runner, requires } = deps
  const admin = { auth: 'admin', requires } as const
  const one = { ...admin, params: { id: t.id('job') } }
  /** Changes a job and returns it; 409 with `wrongState` if its state does not allow it. */
  const change = (act: AuditSource, statement: Sql, wrongState: string): Promise<string> =>
    changeAudited(
      db,
      async (tx) => {
        const text = (await tx.fly(statement)) ?? '{}'
        const { exists, job: after } = JSON.parse(text) as { exists: boolean; job: string | null }
        if (!exists) throw notFound('job not found', 'job_not_found')
        if (after === null) throw new AppError('wrong_state', wrongState)
        return maskJson(after)
      },
      () => act.audit(),
    )
  return [
    route('GET /api/admin/jobs', {
      summary: 'Jobs, newest first; secrets are masked',
      leastRole: 'viewer',
      ...admin,
      query: { state: t.string(), type: t.string(), limit: t.string(), offset: t.string() },
      answers: { 200: t.object({ items: t.array(job), count: t.integer() }) },
      handle: async ({ query }) => {
        const state = q.STATES.find((one) => one === query['state'])
        if (query['state'] && !state) {
          throw badRequest(`invalid state filter; must be one of: ${q.STATES.join(', ')}`)
        }
        const page = limitOf(query, { limit: 50, maxLimit: 500 })
        const filter = { state: state satisfies q.JobState | undefined, type: query['type'] || undefined, ...page }
        return jsonText(200, maskJson((await db.fly(SYSTEM, q.listJobs(filter))) ?? ''))
      },
    }),
    route('POST /api/admin/jobs', {
      summary: 'Queue a job; a key that was used before answers the job it made',
      leastRole: 'operator',
      ...admin,
      audit: 'job.create',
      body: newJob,
      answers: { 201: job, 200: job },
      handle: async (call) => {
        const { body } = call
        if (!runner.knows(body.type)) throw badRequest(`unknown job type: ${body.type}`)
        const runAt = body.runAt || undefined
        if (runAt !== undefined && !(RFC3339.test(runAt) && Number.isFinite(Date.parse(runAt)))) {
          throw badRequest('invalid runAt format')
        }
        const idempotencyKey = body.idempotencyKey || undefined
        const { type, payload = {}, maxAttempts = deps.maxAttempts } = body
        requireRoleOfRequests(call.who, type, payload)
        const input = { type, payload: JSON.stringify(payload), maxAttempts, runAt, idempotencyKey }
        const entry = call.audit({ newValues: { type } })
        const addition = audited(entry, q.addJob(input), { target: MADE_RECORD.target })
        const [made, before] = await db.fly(SYSTEM, [addition, q.jobByKey(idempotencyKey ?? '')])
        if (!made) return jsonText(200, maskJson(before ?? ''))
        runner.wake()
        return jsonText(201, maskJson(made))
      },
    }),
    route('GET /api/admin/jobs/stats', {
      summary: 'How many jobs there are, by state',
      leastRole: 'viewer',
      ...admin,
      answers: { 200: counts },
      handle: async () => jsonText(200, (await db.fly(SYSTEM, q.countJobs)) ?? ''),
    }),
    route('GET /api/admin/jobs/{id}', {
      summary: 'One job, with its log and progress',
      leastRole: 'viewer',
      ...one,
      answers: { 200: job },
      handle: async ({ params }) =>
        jsonText(200, maskJson(found(await db.fly(SYSTEM, q.jobById(params.id)), 'job not found', 'job_not_found'))),
    }),
    route('POST /api/admin/jobs/{id}/retry', {
      summary: 'Queue a failed job again',
      leastRole: 'operator',
      ...one,
      audit: 'job.retry',
      answers: { 200: job },
      handle: async (call) => {
        const after = await change(call, q.retryJob(call.params.id), 'job is not failed')
        runner.wake()
        return jsonText(200, after)
      },
    }),
    route('POST /api/admin/jobs/{id}/cancel', {
      summary: 'Cancel a queued job',
      leastRole: 'operator',
      ...one,
      audit: 'job.cancel',
      answers: { 200: job },
      handle: async (call) => jsonText(200, await change(call, q.cancelJob(call.params.id), 'job is not queued')),
    }),
  ]
}
