import { AppError, databaseUnavailable } from '../../core/errors.ts'
import { type DatabaseRole, databaseSession, type Identity } from '../../core/identity.ts'
import type { AsBytes, FlyOptions, Statements } from '../db.ts'
import { isReadOnly, type PgError } from '../pg-errors.ts'
import type { Connection } from '../protocol/connection.ts'
import { Flight, type Step, stepOf } from '../protocol/flight.ts'
import { Sql } from '../sql.ts'
import { flyOnce } from './once-flight.ts'
import type { Done, PooledConnection, PoolRequest } from './request.ts'
import { type AdminSide, type LoginSide, loginOf, type Side } from './reserves.ts'
import { backOff, isWorthRetrying } from './retries.ts'
import type { ConnectionScheduler } from './scheduler.ts'
import { type CreateSession, SESSION_STEP, tidying } from './session.ts'

export type LaunchOptions = FlyOptions & Partial<AsBytes>

type Deps = {
  scheduler: ConnectionScheduler
  session: CreateSession
  statementTimeoutMs: number
  /** See SessionSettings. */
  logKey: string
  isAvailable(): boolean
  /** Which logins of administrators there are. */
  admins: AdminSides
  /** A connection outside the pool, on which nothing is prepared. */
  openApart(login: LoginSide): Promise<Connection>
}

/** Makes flights of statements, and flies them again where that is worth it. */
export class Launcher {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Flies until it is answered, refused for good, or its caller leaves. */
  launch(who: Identity, statements: Sql | Statements, options: LaunchOptions, wantsRows: boolean, settle: Done): void {
    const { signal, timeoutMs = this.#deps.statementTimeoutMs, lockTimeoutMs, plain, once } = options
    const { role } = databaseSession(who)
    const steps = statements instanceof Sql ? [stepOf(statements)] : statements.map(stepOf)
    const asBytes = options.as === 'bytes'
    const { maxBytes } = options
    const isApart = options.kind === 'apart'
    const kind = kindOf(who, options)
    const isTidied = kind !== 'read' && (who.kind !== 'system' || who.for === 'data') && plain !== true
    let tries = 0
    let leave = (): void => {}
    const abort = (): void => leave()
    const request: PoolRequest = {
      side: sideOf(who, role, this.#deps.admins),
      kind,
      text: steps.at(-1)?.text ?? '',
      timeoutMs,
      start: (connection, limitMs, onDone) => {
        const { step } = this.#deps.session(who, limitMs, lockTimeoutMs)
        if (once) {
          const plan = { session: step, steps, role, asBytes, maxBytes, once, logKey: this.#deps.logKey }
          return flyOnce(connection, plan, () => isTidied && tidy(connection), onDone)
        }
        const flight = new Flight({ steps: [step, ...steps], role, wantsRows, asBytes, maxBytes }, (error, done) => {
          // A caller before left the session in a bad state.
          if (failedStep(error) === SESSION_STEP) void connection.close()
          onDone(error, done)
        })
        connection.send(flight)
        if (isTidied) tidy(connection)
        return flight
      },
      onDone: (error, flight) => {
        if (error && !signal?.aborted && !isApart && isWorthRetrying(error, tries, SESSION_STEP)) {
          void backOff(error, tries).then(launch)
          return
        }
        signal?.removeEventListener('abort', abort)
        settle(refusedWrite(located(error, steps), who), flight)
      },
    }
    const launch = (): void => {
      tries++
      if (signal?.aborted) request.onDone(aborted())
      else if (!this.#deps.isAvailable()) request.onDone(databaseUnavailable())
      else leave = isApart ? this.#flyApart(request) : this.#deps.scheduler.add(request)
    }
    signal?.addEventListener('abort', abort, { once: true })
    launch()
  }

  /** Not repeated: the caller has a queue, or is a person, that does. Answers what to call when the caller is gone. */
  #flyApart(request: PoolRequest): () => void {
    let leave = (): void => {}
    let isLeft = false
    const run = async (): Promise<void> => {
      const connection = await this.#deps.openApart(loginOf(request.side))
      const end: Done = (error, flight) => {
        void connection.close()
        request.onDone(error, flight)
      }
      if (isLeft) return end(aborted())
      const flight = request.start(connection, request.timeoutMs, end)
      if (flight) leave = () => void connection.cancel(flight)
    }
    run().catch((error: PgError) => request.onDone(error))
    return () => {
      isLeft = true
      leave()
    }
  }
}

const tidy = (connection: PooledConnection): void =>
  connection.send(tidying((error) => error && void connection.close()))

/** Which logins of administrators there are; where the server itself is no superuser, its own role is the owner's. */
export type AdminSides = { readonly owner: boolean } & { readonly [side in AdminSide]: boolean }

export function sideOf(who: Identity, role: DatabaseRole, admins: AdminSides): Side {
  if (role !== 'none') return 'callers'
  if (who.kind === 'admin') return adminSide(who, admins)
  if (who.kind !== 'system' || who.for === undefined) return 'own'
  if (who.for === 'callers') return 'behalf'
  return admins.owner ? 'writers' : 'own'
}

function adminSide({ role, asServer }: Extract<Identity, { kind: 'admin' }>, admins: AdminSides): Side {
  if (role === 'owner') return admins.owner && !asServer ? 'writers' : 'own'
  const side = role === 'operator' ? 'writers' : 'readers'
  if (!admins[side]) throw new AppError('insufficient_role', `the database has no login for data of the role ${role}`)
  return side
}

/** A viewer's transactions are read-only. */
export const refusedWrite = <E>(error: E, who: Identity): E | AppError =>
  who.kind === 'admin' && who.role === 'viewer' && isReadOnly(error)
    ? new AppError('insufficient_role', 'this writes, which the role does not allow', { cause: error })
    : error

export const aborted = (): AppError => new AppError('request_timeout', 'request was aborted')

function kindOf(who: Identity, { kind = 'write' }: LaunchOptions): PoolRequest['kind'] {
  // The operator's requests share the server's own connections, but never more of them than slow work may take.
  if (kind === 'apart' || who.kind === 'admin' || (who.kind === 'system' && who.for === 'data')) return 'slow'
  // Connections of the server's login are never shared between its own work and that of callers.
  return kind === 'read' && who.kind === 'system' && who.for === 'callers' ? 'write' : kind
}

const failedStep = (error: PgError | AppError | null): number | undefined =>
  error === null || error instanceof AppError ? undefined : error.statementIndex

/** Which of the caller's statements failed; the first of the flight is the session's. */
function located(error: PgError | AppError | null, steps: readonly Step[]): PgError | AppError | null {
  const index = failedStep(error)
  if (index === undefined) return error
  return Object.assign(error as PgError, { statementIndex: index - 1, statement: steps[index - 1]?.text })
}
