import { AppError, databaseUnavailable } from '../../core/errors.ts'
import { type DatabaseRole, databaseSession, type Identity } from '../../core/identity.ts'
import type { AsBytes, FlyOptions, Statements } from '../db.ts'
import { asUnknownFate, isLockTimeout, isReadOnly, type PgError } from '../pg-errors.ts'
import type { Connection } from '../protocol/connection.ts'
import { Flight, type Step, stepOf } from '../protocol/flight.ts'
import { Sql } from '../sql.ts'
import { flyOnce } from './once-flight.ts'
import type { Done, PooledConnection, PoolRequest } from './request.ts'
import { type AdminSide, type LoginSide, loginOf, type Side } from './reserves.ts'
import { backOff, fateOf, isWorthRetrying } from './retries.ts'
import type { ConnectionScheduler } from './scheduler.ts'
import { type CreateSession, SESSION_STEP, tidying } from './session.ts'
import { GIVE_WAY_MS, LOCK_TIMEOUT_MS, MAX_REFLIGHTS, SMALL_WRITE_BYTES } from './tuning.ts'

export type LaunchOptions = FlyOptions & Partial<AsBytes>

type Deps = {
  scheduler: ConnectionScheduler
  session: CreateSession
  statementTimeoutMs: number
  /** See SessionSettings. */
  logKey: string
  isAvailable(): boolean
  /** There are other hosts, of which one may soon be the primary: what was not sent waits for it. */
  waitsForPrimary: boolean
  /** Resolves when the database is there, to false when it is not after `acquire_timeout`. */
  whenAvailable(): Promise<boolean>
  /** A write was refused as on a standby. */
  onReadOnly(): void
  /** Of a replica, whose flights are flown on the primary instead. */
  neverFliesAgain: boolean
  /** Takes the position of the log after each write; undefined: no replica needs it. */
  notePosition: NotePosition | undefined
  /** Which logins of administrators there are. */
  admins: AdminSides
  /** A connection outside the pool, on which nothing is prepared. */
  openApart(login: LoginSide): Promise<Connection>
}

/** Sends a second Sync behind a write, in the same packet, and calls back when its answer is here or never will be. */
export type NotePosition = (connection: PooledConnection, who: Identity, noted: () => void) => void

/** Makes flights of statements, and flies them again where that is worth it. */
export class Launcher {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Flies until it is answered, refused for good, or its caller leaves. */
  launch(who: Identity, statements: Sql | Statements, options: LaunchOptions, wantsRows: boolean, settle: Done): void {
    const { signal, timeoutMs = this.#deps.statementTimeoutMs, givesWay = false, plain, once } = options
    const lockTimeoutMs = givesWay ? GIVE_WAY_MS : options.lockTimeoutMs
    const locksUntil = givesWay ? performance.now() + LOCK_TIMEOUT_MS : 0
    const { role } = databaseSession(who)
    const steps = statements instanceof Sql ? [stepOf(statements)] : statements.map(stepOf)
    const asBytes = options.as === 'bytes'
    const { maxBytes } = options
    const isApart = options.kind === 'apart'
    const side = sideOf(who, role, this.#deps.admins)
    const kind = kindOf(who, side, steps, options)
    const isTidied =
      kind !== 'read' && (who.kind !== 'system' || who.for === 'data' || who.for === 'hooks') && plain !== true
    const isRead = options.kind === 'read'
    let tries = 0
    let reflights = 0
    const notePosition = isRead ? undefined : this.#deps.notePosition
    let leave = (): void => {}
    const abort = (): void => leave()
    const request: PoolRequest = {
      side,
      kind,
      text: steps.at(-1)?.text ?? '',
      timeoutMs,
      start: (connection, limitMs, onDone, lockMs = lockTimeoutMs) => {
        const { step } = this.#deps.session(who, limitMs, lockMs)
        if (once) {
          const plan = { session: step, steps, role, asBytes, maxBytes, once, logKey: this.#deps.logKey }
          const end: Done = (error, done) => {
            if (error || !notePosition) onDone(error, done)
            else notePosition(connection, who, () => onDone(error, done))
          }
          return flyOnce(connection, plan, () => isTidied && tidy(connection), end)
        }
        let answered = (): void => {}
        let isNoted = notePosition === undefined
        const noted = (): void => {
          isNoted = true
          answered()
        }
        const flight = new Flight({ steps: [step, ...steps], role, wantsRows, asBytes, maxBytes }, (error, done) => {
          // A caller before left the session in a bad state.
          if (failedStep(error) === SESSION_STEP) void connection.close()
          if (isNoted || error) onDone(error, done)
          else answered = () => onDone(error, done)
        })
        connection.send(flight)
        if (isTidied) tidy(connection)
        notePosition?.(connection, who, noted)
        return flight
      },
      onDone: (error, flight) => {
        const gaveWay = isLockTimeout(error) && performance.now() < locksUntil
        if (error && !signal?.aborted && !isApart && (gaveWay || isWorthRetrying(error, tries, SESSION_STEP))) {
          void backOff(error, tries).then(launch)
          return
        }
        if (error && this.#isLost(error, flight, { isRead, isApart, wasLost: reflights > 0 }) && !signal?.aborted) {
          if (reflights++ < MAX_REFLIGHTS) return void this.#deps.whenAvailable().then(relaunch)
        }
        signal?.removeEventListener('abort', abort)
        settle(refusedWrite(located(error, steps), who), flight)
      },
    }
    const relaunch = (isThere: boolean): void => {
      if (!isThere) reflights = MAX_REFLIGHTS
      if (isThere) launch()
      else request.onDone(databaseUnavailable())
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

  /**
   * Whether a flight that the database did not answer is flown again: reads always, and where there is another host also what
   * surely changed nothing. A write that may be done is marked as such.
   */
  #isLost(
    error: PgError | AppError,
    flight: Flight | undefined,
    { isRead, isApart, wasLost }: { isRead: boolean; isApart: boolean; wasLost: boolean },
  ): boolean {
    const { waitsForPrimary, neverFliesAgain } = this.#deps
    if (neverFliesAgain) return false
    if (isReadOnly(error)) {
      this.#deps.onReadOnly()
      return false
    }
    const fate = fateOf(error, flight)
    if (fate === 'answered') return false
    if (fate === 'unknown' && !isRead) asUnknownFate(error)
    if (isApart || (fate === 'unknown' && !isRead)) return false
    if (flight === undefined) return (waitsForPrimary || wasLost) && !this.#deps.isAvailable()
    return isRead || waitsForPrimary
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
  if (who.for === 'hooks') return 'callers'
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

function kindOf(
  who: Identity,
  side: Side,
  steps: readonly Step[],
  { kind = 'write', plain, once }: LaunchOptions,
): PoolRequest['kind'] {
  // The operator's requests share the server's own connections, but never more of them than slow work may take.
  if (kind === 'apart' || who.kind === 'admin' || (who.kind === 'system' && who.for === 'data')) return 'slow'
  // Connections of the server's login are never shared between its own work and that of callers.
  if (kind === 'read' && who.kind === 'system' && who.for === 'callers') return 'write'
  if (kind === 'write' && plain === true && !once && side === 'callers' && isSmall(steps)) return 'row'
  return kind
}

function isSmall(steps: readonly Step[]): boolean {
  let length = 0
  for (const { values } of steps) for (const value of values) length += value?.length ?? 0
  return length <= SMALL_WRITE_BYTES
}

const failedStep = (error: PgError | AppError | null): number | undefined =>
  error === null || error instanceof AppError ? undefined : error.statementIndex

/** Which of the caller's statements failed; the first of the flight is the session's. */
function located(error: PgError | AppError | null, steps: readonly Step[]): PgError | AppError | null {
  const index = failedStep(error)
  if (index === undefined) return error
  return Object.assign(error as PgError, { statementIndex: index - 1, statement: steps[index - 1]?.text })
}
