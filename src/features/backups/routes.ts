import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AppError } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { JobHandler } from '../../core/job.ts'
import * as t from '../../core/json-type.ts'
import { auditedEffect, auditStatement } from '../../db/audit.ts'
import { shownBackup } from '../../db/backup/stored/records.ts'
import type { Db } from '../../db/db.ts'
import { GiveUp } from '../../db/queue/queue.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { Feature } from '../../http/feature.ts'
import { attachment } from '../../http/files/disposition.ts'
import { type Call, json, type Route, route } from '../../http/route.ts'
import { Backups, type BackupsDeps } from './backups.ts'

type Deps = {
  db: Db
  /** Undefined: no target is configured, or the server is a drill. */
  backups: BackupsDeps | undefined
  /** Why there is none. */
  refusal: string
  schedules: { backup: string; verify: string }
  queueJobs: (type: string, rows: Sql, maxAttempts: number) => Sql
  wakeJobs: () => void
  keepSchedule: (name: string, jobType: string, cronExpr: string) => Promise<void>
}

export type BackupsFeature = Feature & {
  warnings(): readonly string[]
  verifiedAt(): string | null | undefined
}

const record = t.object({
  id: t.string(),
  state: t.oneOf(['running', 'good', 'failed', 'sealed'], {
    description: '`sealed`: with another key than this server has',
  }),
  kind: t.oneOf(['physical', 'logical']),
  started_at: t.time(),
  finished_at: t.nullable(t.time()),
  bytes: t.integer(),
  server: t.optional(t.uuid({ description: 'whose it is' })),
  from: t.nullable(t.string({ description: 'where the log begins that it needs (LSN)' })),
  to: t.nullable(t.string({ description: 'up to where the database is in it (LSN)' })),
  verified_at: t.optional(t.time()),
  verification: t.optional(t.string({ description: '`good`, `failed`, or why it was not verified' })),
  error: t.optional(t.string()),
})
const queued = t.object({ job_id: t.uuid({ description: 'has state, progress and log: /api/admin/jobs/{id}' }) })

/** Hot backups to a folder or S3, by schedule, by hand and verified by restoring them. */
export function createBackups(deps: Deps): BackupsFeature {
  const backups = deps.backups && new Backups(deps.backups)
  const refuse: JobHandler = async () => {
    throw new GiveUp(deps.refusal)
  }
  return {
    routes: backupRoutes(deps, () => {
      if (!backups) throw new AppError('service_disabled', deps.refusal)
      return backups
    }),
    jobs: backups?.handlers ?? { backup: refuse, backup_verify: refuse },
    warnings: () => backups?.warnings() ?? [],
    verifiedAt: () => backups?.verifiedAt(),
    async start() {
      const isOn = backups !== undefined && deps.schedules.backup !== ''
      await deps.keepSchedule('backup', 'backup', isOn ? deps.schedules.backup : '')
      await deps.keepSchedule('backup_verify', 'backup_verify', isOn ? deps.schedules.verify : '')
      backups?.start()
    },
    stop: () => backups?.stop(),
  }
}

function backupRoutes({ db, queueJobs, wakeJobs }: Deps, backups: () => Backups): Route[] {
  const admin = { auth: 'admin', requires: () => void backups() } as const
  /** A job and its audit entry, both or neither. */
  const queue = async (call: Call, type: string, payload: { id?: string; files?: true }) => {
    const id = randomUUID()
    const rows = sql`select ${id}::uuid as id, ${JSON.stringify({ ...payload, asked: true })}::jsonb as payload`
    await db.run(SYSTEM, [queueJobs(type, rows, 1), auditStatement(call.audit({ target: payload.id ?? id }))])
    wakeJobs()
    return json(202, { job_id: id })
  }
  return [
    route('GET /api/admin/backups', {
      summary: 'Backups, newest first',
      leastRole: 'viewer',
      ...admin,
      answers: {
        200: t.object({
          items: t.array(record),
          verified_at: t.nullable(t.time()),
          server: t.uuid({ description: 'this one: backups of others neither count nor are removed by themselves' }),
        }),
      },
      handle: async () => {
        const items = await backups().list()
        return json(200, { items, verified_at: backups().verifiedAt(), server: backups().server })
      },
    }),
    route('POST /api/admin/backups', {
      summary: 'Take a backup',
      leastRole: 'operator',
      ...admin,
      audit: 'backup.create',
      body: t.object({ files: t.optional(t.boolean({ description: 'copy files that lie in S3 too' })) }),
      answers: { 202: queued },
      handle: async (call) => {
        if (await backups().isUnderWay()) throw new AppError('in_progress', 'a backup is under way')
        return queue(call, 'backup', { ...(call.body.files && { files: true }) })
      },
    }),
    route('GET /api/admin/backups/{id}', {
      summary: 'One backup',
      leastRole: 'viewer',
      ...admin,
      params: { id: t.string() },
      answers: { 200: record },
      handle: async ({ params }) => json(200, shownBackup(await backups().find(params.id))),
    }),
    route('POST /api/admin/backups/{id}/verify', {
      summary: 'Restore a backup into a scratch directory and check it',
      leastRole: 'operator',
      ...admin,
      audit: 'backup.verify',
      params: { id: t.string() },
      answers: { 202: queued },
      handle: async (call) => {
        const { id } = await backups().findGood(call.params.id)
        return queue(call, 'backup_verify', { id })
      },
    }),
    route('GET /api/admin/backups/{id}/download', {
      summary: 'A backup and its files as one tar, sealed as they are',
      leastRole: 'owner',
      freshFactor: true,
      ...admin,
      params: { id: t.string() },
      answers: { 200: { content: 'application/x-tar' } },
      handle: async ({ params, raw: { response } }) => {
        const backup = await backups().findGood(params.id)
        response.writeHead(200, {
          'Content-Type': 'application/x-tar',
          'Content-Disposition': attachment(`${backup.id}.tar`),
          'Cache-Control': 'no-store',
        })
        // A failure closes the connection, so that a part is not taken for the whole.
        pipeline(Readable.from(backups().tar(backup), { objectMode: false }), response).catch(() => response.destroy())
        return { status: 200, streaming: true }
      },
    }),
    route('DELETE /api/admin/backups/{id}', {
      summary: 'Remove a backup',
      leastRole: 'owner',
      freshFactor: true,
      ...admin,
      audit: 'backup.delete',
      params: { id: t.string() },
      answers: { 204: null },
      handle: async (call) => {
        const backup = await backups().find(call.params.id)
        const isRefused = (error: unknown) => error instanceof AppError
        await auditedEffect(db, call.audit(), () => backups().remove(backup), isRefused)
        return { status: 204 }
      },
    }),
  ]
}
