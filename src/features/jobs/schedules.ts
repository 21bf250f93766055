import type { AuditSource } from '../../core/audit-entry.ts'
import { AppError, found, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { audited, changeAudited, MADE_RECORD, rowBefore } from '../../db/audit.ts'
import type { Db, Tx } from '../../db/db.ts'
import * as q from './schedule-sql.ts'
import { timesOf } from './scheduler.ts'
import { addJob } from './sql.ts'

/** Default schedules, in UTC; each is created once, when its job type first exists. */
const DEFAULTS: readonly { name: string; jobType: string; cronExpr: string }[] = [
  { name: 'change_log_trim_hourly', jobType: 'change_log_trim', cronExpr: '30 * * * *' },
  { name: 'session_cleanup_hourly', jobType: 'stale_session_cleanup', cronExpr: '0 * * * *' },
  { name: 'audit_log_retention_daily', jobType: 'audit_log_retention', cronExpr: '0 2 * * *' },
  { name: 'push_token_cleanup_daily', jobType: 'push_token_cleanup', cronExpr: '30 2 * * *' },
  { name: 'webhook_delivery_prune_daily', jobType: 'webhook_delivery_prune', cronExpr: '0 3 * * *' },
  { name: 'expired_oauth_cleanup_daily', jobType: 'expired_oauth_cleanup', cronExpr: '0 4 * * *' },
  { name: 'expired_auth_cleanup_daily', jobType: 'expired_auth_cleanup', cronExpr: '0 5 * * *' },
  { name: 'storage_orphan_sweep_daily', jobType: 'storage_orphan_sweep', cronExpr: '0 6 * * *' },
]
const DEFAULT_ATTEMPTS = 3

export type ScheduleChange = Partial<Pick<q.Schedule, 'cronExpr' | 'timezone' | 'payload' | 'enabled' | 'maxAttempts'>>

export class Schedules {
  readonly #db: Db
  readonly #onChange: () => void

  constructor({ db, onChange }: { db: Db; onChange: () => void }) {
    this.#db = db
    this.#onChange = onChange
  }

  async all(): Promise<string> {
    return (await this.#db.fly(SYSTEM, q.listSchedules)) ?? ''
  }

  async create(schedule: q.NewSchedule, act: AuditSource): Promise<string> {
    const addition = q.addSchedule(schedule, nextRun(schedule, await this.#now()))
    const entry = act.audit({ newValues: noted(schedule) })
    const made = await this.#db.fly(SYSTEM, audited(entry, addition, { target: MADE_RECORD.target }))
    if (made === null) throw new AppError('already_exists', 'schedule name already exists')
    this.#onChange()
    return made
  }

  /** Every change computes the next run again, from now. */
  async change(
    id: string,
    change: ScheduleChange,
    act: AuditSource,
    /** Throws where the caller may not make this change of a schedule of this type. */
    check: (jobType: string) => void = () => {},
  ): Promise<string> {
    const changed = await changeAudited(
      this.#db,
      async (tx) => {
        const { now, ...before } = await locked(tx, id)
        check(before.jobType)
        const next = { ...before, ...change }
        return { before, next, text: await tx.fly(q.changeSchedule(next, nextRun(next, now))) }
      },
      ({ before, next }) => act.audit({ oldValues: noted(before), newValues: noted(next) }),
    )
    this.#onChange()
    return changed.text ?? ''
  }

  async remove(id: string, act: AuditSource): Promise<void> {
    const removal = audited(act.audit(), q.removeSchedule(id), rowBefore(q.notedSchedule(id)))
    if ((await this.#db.run(SYSTEM, removal)) === 0) throw notFound('schedule not found', 'schedule_not_found')
  }

  /** Queues a job now, even if the schedule is disabled; the next planned run is unchanged. */
  async run(id: string, act: AuditSource): Promise<string> {
    const job = await changeAudited(
      this.#db,
      async (tx) => {
        const { jobType: type, payload, maxAttempts } = await locked(tx, id)
        return tx.fly(addJob({ type, payload, maxAttempts, scheduleId: id }))
      },
      () => act.audit(),
    )
    return job ?? ''
  }

  /** Every start writes what the configuration says; an unchanged schedule keeps its next time. */
  async keep(name: string, jobType: string, cronExpr: string): Promise<void> {
    if (cronExpr === '') {
      await this.#db.run(SYSTEM, q.dropKeptSchedule(name, jobType))
      return
    }
    const schedule = { name, jobType, cronExpr, timezone: 'UTC', payload: '{}', enabled: true, maxAttempts: 1 }
    await this.#db.run(SYSTEM, q.keepSchedule(schedule, nextRun(schedule, await this.#now())))
    this.#onChange()
  }

  async createDefaults(hasType: (type: string) => boolean): Promise<void> {
    const [known] = await this.#db.rows<{ now: Date; names: string[] }>(SYSTEM, q.knownDefaults)
    const missing = DEFAULTS.filter(({ name, jobType }) => hasType(jobType) && !known?.names.includes(name))
    const now = known?.now ?? new Date()
    const statements = missing.map((one) => {
      const schedule = { ...one, timezone: 'UTC', payload: '{}', enabled: true, maxAttempts: DEFAULT_ATTEMPTS }
      return q.addDefaultSchedule(schedule, nextRun(schedule, now))
    })
    const [first, ...rest] = statements
    if (first) await this.#db.run(SYSTEM, [first, ...rest])
  }

  async #now(): Promise<Date> {
    const [row] = await this.#db.rows<{ now: Date }>(SYSTEM, q.databaseNow)
    return row?.now ?? new Date()
  }
}

/** Without the payload, which may hold secrets. */
const noted = ({ name, jobType, cronExpr, timezone, enabled, maxAttempts }: q.NewSchedule) => ({
  name,
  jobType,
  cronExpr,
  timezone,
  enabled,
  maxAttempts,
})

async function locked(tx: Tx, id: string): Promise<q.Schedule & { now: Date }> {
  const [schedule] = await tx.rows<q.Schedule & { now: Date }>(q.lockSchedule(id))
  return found(schedule, 'schedule not found', 'schedule_not_found')
}

/** Also validates expression and time zone, even if disabled. */
function nextRun({ cronExpr, timezone, enabled }: q.NewSchedule, now: Date): Date | null {
  const times = timesOf(cronExpr, timezone)
  return enabled ? (times.next(now) ?? null) : null
}
