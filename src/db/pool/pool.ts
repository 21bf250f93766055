import { availableParallelism } from 'node:os'
import { databaseUnavailable } from '../../core/errors.ts'
import { databaseSession, type Identity, mayOnlyRead, readOnlyRefusal } from '../../core/identity.ts'
import { KeyedMutex } from '../../core/limits.ts'
import type { Observe } from '../../core/observe.ts'
import { countDbWait } from '../../core/timing.ts'
import type {
  ApartOptions,
  AsBytes,
  Db,
  FlyOptions,
  Notifications,
  Relayed,
  Row,
  Statements,
  Tx,
  Values,
} from '../db.ts'
import { fromPg, isLoginRefused, isReadOnlyError, isTooManyClients, lockedOut } from '../pg-errors.ts'
import { Connection, type ConnectionEvents } from '../protocol/connection.ts'
import { type ConnectOptions, type DatabaseLogin, openConnection } from '../protocol/driver.ts'
import { Flight } from '../protocol/flight.ts'
import { StatementNames } from '../protocol/statements.ts'
import { ReceiveBuffers } from '../protocol/whole-messages.ts'
import { Sql } from '../sql.ts'
import { aborted, Launcher, type LaunchOptions, sideOf } from './launcher.ts'
import { Monitor, type MonitorState } from './monitor.ts'
import { keepingIn, ONCE_STEPS } from './once-flight.ts'
import type { Done, PooledConnection, PoolRequest } from './request.ts'
import { type LoginSide, loginOf, type Side } from './reserves.ts'
import { backOff, isWorthRetrying } from './retries.ts'
import { ConnectionScheduler, type SchedulerClock } from './scheduler.ts'
import { type CreateSession, createSessionStep, LASTING_SESSION } from './session.ts'
import { LOCK_TIMEOUT_MS, WARMING, WRITERS_PER_CORE } from './tuning.ts'
import { runTransaction } from './tx.ts'

export type PoolOptions = {
  url: string
  /** Bypasses a transaction pooler, for LISTEN; default `url`. */
  directUrl?: string
  /** Who callers' requests connect as; default: as the server itself. */
  callerLogin?: DatabaseLogin | undefined
  maxConns: number
  minConns: number
  acquireTimeoutMs: number
  preparedStatements: boolean
  schemas: readonly string[]
  statementTimeoutMs: number
  /** See SessionSettings. */
  logKey?: string
  observe: Observe
  /** Default: one of its own. */
  receiving?: ReceiveBuffers
}

export type PoolStats = { total: number; idle: number; inUse: number; max: number }

export interface Pool extends Db, Notifications {
  state(): 'ok' | 'unreachable'
  stats(): PoolStats
  /** A connection of its own, on the direct URL, for work that must not leave session state. The caller ends it. */
  openConnection(login?: DatabaseLogin): ReturnType<typeof openConnection>
  /** As a caller, on the login of callers, until it is ended; undefined where there is no such login. */
  openAs(who: Identity): ReturnType<typeof openConnection> | undefined
  stop(): Promise<void>
}

export async function openPool(options: PoolOptions): Promise<Pool> {
  const pool = new PostgresPool(options)
  try {
    await pool.start()
    return pool
  } catch (error) {
    await pool.stop()
    throw error
  }
}

/** On our own machine PostgreSQL has no more cores than we do, and more processes at work only get in each other's way. */
function isNearby(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { hostname, searchParams } = new URL(url)
  const host = searchParams.get('host') ?? hostname
  return host === '' || host.startsWith('/') || /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(host)
}

const clock: SchedulerClock = {
  now: () => performance.now(),
  every: (ms, run) => {
    const timer = setInterval(run, ms).unref()
    return () => clearInterval(timer)
  },
}

class PostgresPool implements Pool {
  readonly #options: PoolOptions
  readonly #receiving: ReceiveBuffers
  readonly #names = new StatementNames()
  readonly #scheduler: ConnectionScheduler
  readonly #launcher: Launcher
  readonly #rowLocks = new KeyedMutex()
  readonly #monitor: Monitor
  readonly #session: CreateSession
  #isDown = false
  #isClosed = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.#receiving = options.receiving ?? new ReceiveBuffers()
    this.#session = createSessionStep(options)
    // Each side needs one.
    const max = Math.max(2, options.maxConns)
    const nearby = isNearby(options.url)
    this.#scheduler = new ConnectionScheduler({
      max,
      min: { own: 1, callers: Math.max(1, options.minConns - 1) },
      crowd: nearby ? Math.max(2, availableParallelism()) : Math.ceil(max / 3),
      writers: nearby ? Math.max(2, availableParallelism()) * WRITERS_PER_CORE : max,
      isNearby: nearby,
      acquireTimeoutMs: options.acquireTimeoutMs,
      clock,
      open: (login, events) => this.#open(login, options.preparedStatements, events),
      onOpenFailed: (login, error) => this.#openFailed(error, login),
    })
    this.#launcher = new Launcher({
      scheduler: this.#scheduler,
      session: this.#session,
      statementTimeoutMs: options.statementTimeoutMs,
      logKey: options.logKey ?? '',
      isAvailable: () => !this.#isDown && !this.#isClosed,
      openApart: (login) => this.#open(login, false),
    })
    this.#monitor = new Monitor(options.directUrl ?? options.url, options.observe, (state) => this.#onState(state))
  }

  async start(): Promise<void> {
    await Promise.all([this.#monitor.start(), this.#scheduler.warm()])
  }

  state(): 'ok' | 'unreachable' {
    return this.#monitor.state
  }

  stats(): PoolStats {
    const { size: total, idle } = this.#scheduler
    return { total, idle, inUse: total - idle, max: this.#options.maxConns }
  }

  openConnection(login?: DatabaseLogin) {
    return openConnection({ url: this.#options.directUrl ?? this.#options.url, login }).catch((error: unknown) => {
      throw fromPg(error)
    })
  }

  openAs(who: Identity) {
    const { callerLogin } = this.#options
    return callerLogin && this.#openAs(who, callerLogin)
  }

  async #openAs(who: Identity, login: DatabaseLogin) {
    const client = await this.openConnection(login)
    try {
      const { rows } = await client.query<{ user: string }>('select session_user as user')
      if (rows[0]?.user !== login.user) throw new Error(`${login.user} arrives in the database as ${rows[0]?.user}`)
      const { values } = this.#session(who).step
      await client.query(LASTING_SESSION, [...values])
      return client
    } catch (error) {
      await client.end().catch(() => {})
      throw error
    }
  }

  fly(who: Identity, statement: Sql, options: FlyOptions & AsBytes): Promise<Relayed | null>
  fly(who: Identity, statement: Sql, options?: FlyOptions): Promise<string | null>
  fly<const S extends Statements>(
    who: Identity,
    statements: S,
    options: FlyOptions & AsBytes,
  ): Promise<Values<S, Relayed>>
  fly<const S extends Statements>(who: Identity, statements: S, options?: FlyOptions): Promise<Values<S, string>>
  fly(who: Identity, statements: Sql | Statements, options?: LaunchOptions): Promise<unknown> {
    if (options?.once) return this.#fly(who, statements, options, false, valuesOnce(statements))
    // The first value is that of the session step.
    return this.#fly(who, statements, options, false, ({ values }) =>
      statements instanceof Sql ? (values[1] ?? null) : values.slice(1),
    )
  }

  rows<T extends object = Row>(who: Identity, statements: Sql | Statements, options?: LaunchOptions): Promise<T[]> {
    return this.#fly(who, statements, options, true, (flight) => flight.rows<T>())
  }

  run(who: Identity, statements: Sql | Statements, options?: FlyOptions): Promise<number> {
    return this.#fly(who, statements, options, false, ({ count }) => count)
  }

  async tx<T>(who: Identity, work: (tx: Tx) => Promise<T>, options?: ApartOptions<T>): Promise<T> {
    if (options) return this.#txApart(who, work, options)
    for (let tries = 1; ; tries++) {
      this.#requireDatabase()
      const session = this.#session(who)
      const { connection, release } = await this.#hold(sideOf(who, databaseSession(who).role))
      try {
        return await runTransaction(connection, session, work)
      } catch (error) {
        if (!isWorthRetrying(error, tries)) throw failureFor(who, error)
        await backOff(error, tries)
      } finally {
        release()
      }
    }
  }

  /** A connection for a transaction, until it is released. */
  #hold(side: Side): Promise<{ connection: PooledConnection; release: () => void }> {
    return new Promise((resolve, reject) => {
      const start: PoolRequest['start'] = (connection, _timeoutMs, onDone) => {
        resolve({ connection, release: () => onDone(null) })
        return undefined
      }
      const onDone: Done = (error) => error && reject(error)
      this.#scheduler.add({ side, kind: 'write', text: '', timeoutMs: 0, start, onDone })
    })
  }

  async #txApart<T>(who: Identity, work: (tx: Tx) => Promise<T>, options: ApartOptions<T>): Promise<T> {
    const { signal, isSnapshot, once } = options
    this.#requireDatabase()
    const session = this.#session(who)
    const connection = await this.#open(loginOf(sideOf(who, databaseSession(who).role)), true).catch(
      (error: unknown) => {
        throw fromPg(error)
      },
    )
    const leave = (): void => connection.destroy()
    signal?.addEventListener('abort', leave, { once: true })
    try {
      if (signal?.aborted) throw aborted()
      const keeping = once && keepingIn(this.#options.logKey ?? '', once)
      return await runTransaction(connection, session, work, isSnapshot ? SNAPSHOT : 'begin', keeping)
    } catch (error) {
      throw failureFor(who, error)
    } finally {
      signal?.removeEventListener('abort', leave)
      void connection.close()
    }
  }

  listen(channel: string, onNotify: (payload: string) => void, onReconnect?: () => void) {
    return this.#monitor.listen(channel, onNotify, onReconnect)
  }

  async stop(): Promise<void> {
    this.#isClosed = true
    await Promise.all([this.#monitor.stop(), this.#scheduler.close()])
  }

  #fly<T>(
    who: Identity,
    statements: Sql | Statements,
    options: LaunchOptions = NO_OPTIONS,
    wantsRows: boolean,
    answer: (flight: Flight) => T,
  ): Promise<T> {
    const fly = (): Promise<T> =>
      new Promise((resolve, reject) => {
        this.#launcher.launch(who, statements, options, wantsRows, (error, flight) => {
          if (flight && !error) resolve(answer(flight))
          else reject(failureFor(who, error))
        })
      })
    if (options.row === undefined) return countDbWait(fly())
    // PostgreSQL lets no two writes at one row anyway; but what waits there holds a connection.
    const patience = { signal: options.signal, timeoutMs: LOCK_TIMEOUT_MS, onTimeout: lockedOut }
    return countDbWait(this.#rowLocks.run(options.row, fly, patience))
  }

  async #open(login: LoginSide, isPrepared: boolean, events: ConnectionEvents = NO_EVENTS): Promise<Connection> {
    const { url, callerLogin } = this.#options
    const connect: ConnectOptions = login === 'callers' ? { url, login: callerLogin } : { url }
    const names = isPrepared ? this.#names : undefined
    const connection = await Connection.open({ connect, receiving: this.#receiving, names }, events)
    if (!isPrepared) return connection
    return new Promise((resolve, reject) => {
      const plan = { steps: [{ text: WARMING, values: [] }], role: '' }
      connection.send(new Flight(plan, (error) => (error ? reject(error) : resolve(connection))))
    })
  }

  #requireDatabase(): void {
    if (this.#isDown || this.#isClosed) throw databaseUnavailable()
  }

  /** While the database is away requests are refused at once; the monitor notices its return. */
  #onState(state: MonitorState): void {
    if (state === 'hung') this.#scheduler.destroyAll()
    this.#isDown = state !== 'ok'
    if (this.#isDown) this.#scheduler.failWaiters()
    else void this.#scheduler.warm().catch(() => {}) // reported through onOpenFailed
  }

  #openFailed(error: Error, login: LoginSide): void {
    if (this.#isClosed || (isTooManyClients(error) && this.#scheduler.sizeOf('own') > 0)) return
    const isRefused = login === 'callers' && isLoginRefused(error)
    if (isRefused) {
      this.#options.observe({ message: 'callers cannot log in', attrs: { error: error.message } })
    }
    // Until the monitor's next ping.
    this.#isDown ||= !isRefused
    this.#scheduler.failWaiters(isRefused ? ['callers'] : undefined)
  }
}

const valuesOnce =
  (statements: Sql | Statements) =>
  ({ values }: Flight): unknown =>
    statements instanceof Sql ? (values[ONCE_STEPS] ?? null) : values.slice(ONCE_STEPS, -1)

/** A write of a caller who may only read is no sign of a database that takes none. */
const failureFor = (who: Identity, error: unknown): unknown =>
  mayOnlyRead(who) && isReadOnlyError(error) ? readOnlyRefusal(who) : fromPg(error)

const NO_OPTIONS: LaunchOptions = {}
const NO_EVENTS: ConnectionEvents = { onRoom: () => {}, onClosed: () => {} }
const SNAPSHOT = 'begin isolation level repeatable read, read only'
