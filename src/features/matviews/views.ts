import type { AuditSource } from '../../core/audit-entry.ts'
import type { CancelSignal } from '../../core/cancel-signal.ts'
import { AppError, badRequest, found, notFound, reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { Semaphore } from '../../core/limits.ts'
import type { Observe } from '../../core/observe.ts'
import { audited, auditStatement, before, MADE_RECORD } from '../../db/audit.ts'
import type { Db, FlyOptions } from '../../db/db.ts'
import { isRefreshing } from '../../db/pg-errors.ts'
import type { Sql } from '../../db/sql.ts'
import * as q from './sql.ts'

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_$]{0,62}$/
/** Materialized views may be large. */
const TIMEOUT_MS = 1_800_000
/** Concurrent refreshes of this process; each holds a connection. */
const MAX_AT_ONCE = 4

type MatView = { oid: string; schema: string; name: string; isPopulated: boolean; hasUniqueIndex: boolean }
export type Refreshed = { durationMs: number; registration: string | null }

export class MatViews {
  readonly #db: Db
  readonly #observe: Observe
  readonly #refreshes = new Semaphore(MAX_AT_ONCE)

  constructor({ db, observe }: { db: Db; observe: Observe }) {
    this.#db = db
    this.#observe = observe
  }

  async all(): Promise<string> {
    return (await this.#db.fly(SYSTEM, q.allViews)) ?? ''
  }

  async one(id: string): Promise<string> {
    return registered(await this.#db.fly(SYSTEM, q.oneView(id)))
  }

  async register(schema: string, name: string, mode: q.RefreshMode, act: AuditSource): Promise<string> {
    checkName(schema)
    checkName(name)
    const view = await this.#find(schema, name, 'materialized view not found in database')
    const made = await this.#db.fly(SYSTEM, audited(act.audit(), q.addView(view, mode), MADE_RECORD))
    if (made === null) throw new AppError('already_exists', 'materialized view already registered')
    return made
  }

  async changeMode(id: string, mode: q.RefreshMode, act: AuditSource): Promise<string> {
    const noted = { ...MADE_RECORD, ...before(q.oneView(id)) }
    return registered(await this.#db.fly(SYSTEM, audited(act.audit(), q.changeMode(id, mode), noted)))
  }

  async remove(id: string, act: AuditSource): Promise<void> {
    if ((await this.#db.run(SYSTEM, audited(act.audit(), q.removeView(id), before(q.oneView(id))))) === 0)
      throw notFound('registration not found', 'view_not_found')
  }

  async refreshRegistered(id: string, signal: CancelSignal, act: AuditSource): Promise<Refreshed> {
    const { schemaName, viewName, refreshMode } = JSON.parse(await this.one(id)) as {
      schemaName: string
      viewName: string
      refreshMode: q.RefreshMode
    }
    return this.#refresh(schemaName, viewName, refreshMode, signal, auditStatement(act.audit()))
  }

  /** Needs no registration. If there is one, its mode is used and the outcome recorded in it. */
  async refreshNamed(schema: string, name: string, signal: AbortSignal): Promise<Refreshed> {
    const [registration] = await this.#db.rows<{ mode: q.RefreshMode }>(SYSTEM, q.modeOf(schema, name))
    return this.#refresh(schema, name, registration?.mode ?? 'standard', signal)
  }

  async #refresh(
    schema: string,
    name: string,
    mode: q.RefreshMode,
    signal: CancelSignal,
    ...entry: Sql[]
  ): Promise<Refreshed> {
    const view = await this.#find(schema, name, 'materialized view no longer exists in database')
    if (mode === 'concurrent') {
      if (!view.hasUniqueIndex) {
        throw new AppError('wrong_state', 'concurrent refresh requires a unique index on the materialized view')
      }
      if (!view.isPopulated) {
        throw new AppError('wrong_state', 'concurrent refresh requires a populated materialized view')
      }
    }
    const startedAt = performance.now()
    const failure = await this.#run(view, mode, signal, entry)
    const durationMs = Math.round(performance.now() - startedAt)
    const error = failure && (databaseReason(failure) ?? failure.message)
    const registration = await this.#db.fly(SYSTEM, q.recordRefresh(view, { durationMs, error: error ?? null }))
    if (failure) {
      this.#observe({ message: 'materialized view not refreshed', attrs: { schema, name, error } })
      throw new AppError('internal', 'failed to refresh materialized view', { cause: failure })
    }
    return { durationMs, registration }
  }

  /** Returns the error of a failed refresh. If another refresh is running, it throws, so that nothing is recorded. */
  async #run(
    view: MatView,
    mode: q.RefreshMode,
    signal: CancelSignal,
    entry: readonly Sql[],
  ): Promise<Error | undefined> {
    if (this.#refreshes.isFull) throw new AppError('server_busy', 'server busy', { headers: { 'Retry-After': '1' } })
    const statements: [Sql, ...Sql[]] = [q.lockRefresh(view.oid), q.refresh(view.schema, view.name, mode), ...entry]
    const options: FlyOptions = { kind: 'apart', timeoutMs: TIMEOUT_MS, signal }
    try {
      await this.#refreshes.run(() => this.#db.run(SYSTEM, statements, options))
      return undefined
    } catch (error) {
      if (isRefreshing(error)) throw new AppError('in_progress', 'refresh already in progress')
      return error instanceof Error ? error : new Error(reasonOf(error))
    }
  }

  async #find(schema: string, name: string, missing: string): Promise<MatView> {
    const [view] = await this.#db.rows<MatView>(SYSTEM, q.findView(schema, name))
    return found(view, missing, 'view_not_found')
  }
}

/** PostgreSQL's message, which an AppError hides from clients; only the operator reads a registration. */
const databaseReason = (error: Error): string | undefined =>
  error.cause instanceof Error ? error.cause.message : undefined

const registered = (text: string | null): string => found(text, 'registration not found', 'view_not_found')

function checkName(name: string): void {
  if (!IDENTIFIER.test(name)) throw badRequest(`invalid identifier: ${name.slice(0, 100)}`)
}
