import { availableParallelism } from 'node:os'
import { sleep } from '../../core/clock.ts'
import { databaseUnavailable } from '../../core/errors.ts'
import { databaseSession, type Identity, mayOnlyRead, writeRefusal } from '../../core/identity.ts'
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
import { type ConnectOptions, type DatabaseLogin, openConnection, openConnectionCount } from '../protocol/driver.ts'
import { Flight } from '../protocol/flight.ts'
import { isNearby } from '../protocol/hosts.ts'
import { takesSettings } from '../protocol/settings.ts'
import { StatementNames, type StatementShape } from '../protocol/statements.ts'
import { ReceiveBuffers } from '../protocol/whole-messages.ts'
import { Sql } from '../sql.ts'
import { linuxPriority } from './backend-priority.ts'
import type { SchedulerClock } from './clock.ts'
import type { Dialects } from './dialect.ts'
import { type AdminSides, aborted, Launcher, type LaunchOptions, refusedWrite, sideOf } from './launcher.ts'
import { Monitor, type MonitorState } from './monitor.ts'
import { keepingIn, ONCE_STEPS } from './once-flight.ts'
import { endOfRecord, lsnOf, type WrittenPositions } from './positions.ts'
import { Primary } from './primary.ts'
import type { Done, PooledConnection, PoolRequest } from './request.ts'
import { type AdminSide, type LoginSide, loginOf, type Side } from './reserves.ts'
import { backOff, isWorthRetrying } from './retries.ts'
import { ConnectionScheduler } from './scheduler.ts'
import { type CreateSession, createSessionStep, lastingSession } from './session.ts'
import { LOCK_TIMEOUT_MS, LOST_MS, WARMING, WRITERS_PER_CORE } from './tuning.ts'
import { runTransaction } from './tx.ts'

export type PoolOptions = {
  url: string
  /** Bypasses a transaction pooler, for LISTEN; default `url`. */
  directUrl?: string
  /** Finds the primary among the hosts of the direct URL; default: one of its own. */
  primary?: Primary
  /** Who callers' requests connect as; default: as the server itself. */
  callerLogin?: DatabaseLogin | undefined
  /** Who administrators' requests connect as. `owner`: whether those of owners do, or else as the server itself. */
  adminLogins?: { readonly owner: boolean } & { readonly [side in AdminSide]?: DatabaseLogin | undefined }
  maxConns: number
  minConns: number
  acquireTimeoutMs: number
  preparedStatements: boolean
  schemas: readonly string[]
  statementTimeoutMs: number
  /** See SessionSettings. */
  logKey?: string
  dialects?: Dialects
  observe: Observe
  /** A standby that serves reads: nothing is noted there, and what is lost is not flown again. */
  isReplica?: boolean
  /** What callers wrote, where replicas need it. */
  positions?: WrittenPositions | undefined
  /** Default: one of its own. */
  receiving?: ReceiveBuffers
}

export type PoolStats = {
  total: number
  idle: number
  inUse: number
  max: number
  /** Of this process to PostgreSQL, also beside this pool. */
  open: number
}

export interface Pool extends Db, Notifications {
  state(): 'ok' | 'unreachable'
  /** Of the primary. */
  timeline(): number
  /** Of one host, the primary, and past a pooler. */
  primaryUrl(): string
  stats(): PoolStats
  /** A connection of its own, on the direct URL, for work that must not leave session state. The caller ends it. */
  openConnection(login?: DatabaseLogin): ReturnType<typeof openConnection>
  /** Statements that ran at least so often, with their number. */
  shapes(leastRuns: number): StatementShape[]
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
  /** Where the monitor and connections outside the pool go, and where those of the pool go. */
  readonly #direct: Primary
  readonly #pooled: Primary
  readonly #awaiting = new Set<(isThere: boolean) => void>()
  readonly #session: CreateSession
  readonly #admins: AdminSides
  #isDown = false
  #isClosed = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.#receiving = options.receiving ?? new ReceiveBuffers()
    const { url, directUrl = url, isReplica = false } = options
    // Poolers have sessions that others use too.
    const lacksSettings = (): boolean => directUrl !== url || !takesSettings(this.#pooled.url)
    this.#session = createSessionStep({ ...options, lacksSettings })
    this.#direct = options.primary ?? new Primary(isReplica ? anyServer(directUrl) : directUrl)
    this.#pooled = directUrl === url ? this.#direct : new Primary(url)
    const { owner = false, writers, readers } = options.adminLogins ?? {}
    this.#admins = { owner: owner && writers !== undefined, writers: !!writers, readers: !!readers }
    // Each side needs one.
    const max = Math.max(2, options.maxConns)
    // On our own machine PostgreSQL has no more cores than we do, and more processes at work only get in each other's way.
    const nearby = isNearby(options.url)
    this.#scheduler = new ConnectionScheduler({
      max,
      min: { own: isReplica ? 0 : 1, callers: Math.max(1, options.minConns - 1), writers: 0, readers: 0 },
      crowd: nearby ? Math.max(2, availableParallelism()) : Math.ceil(max / 3),
      writers: nearby ? Math.max(2, availableParallelism()) * WRITERS_PER_CORE : max,
      isNearby: nearby,
      priority: nearby ? linuxPriority() : undefined,
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
      waitsForPrimary: this.#direct.hasOthers,
      whenAvailable: () => this.#whenAvailable(),
      onReadOnly: () => this.#monitor.doubt(),
      neverFliesAgain: options.isReplica === true,
      notePosition: options.positions && ((connection, who, noted) => this.#note(connection, who, noted)),
      admins: this.#admins,
      openApart: (login) => this.#open(login, false),
    })
    this.#monitor = new Monitor(this.#direct, options.observe, (state) => this.#onState(state), isReplica)
  }

  async start(): Promise<void> {
    await this.#monitor.start()
    await this.#scheduler.warm()
  }

  state(): 'ok' | 'unreachable' {
    return this.#monitor.state
  }

  timeline(): number {
    return this.#monitor.timeline
  }

  primaryUrl(): string {
    return this.#direct.url
  }

  stats(): PoolStats {
    const { size: total, idle } = this.#scheduler
    return { total, idle, inUse: total - idle, max: this.#options.maxConns, open: openConnectionCount() }
  }

  shapes(leastRuns: number): StatementShape[] {
    return this.#names.shapes(leastRuns)
  }

  openConnection(login?: DatabaseLogin) {
    return openConnection({ url: this.#direct.url, login }).catch((error: unknown) => {
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
      await client.query(lastingSession(this.#options.dialects, this.#session(who).step))
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
      await this.#requirePrimary()
      const session = this.#session(who)
      const { connection, release } = await this.#hold(this.#sideOf(who))
      try {
        return await runTransaction(connection, session, work, 'begin', undefined, this.#noting(connection, who))
      } catch (error) {
        if (!isWorthRetrying(error, tries)) throw failureFor(who, error)
        await backOff(error, tries)
      } finally {
        release()
      }
    }
  }

  #sideOf(who: Identity): Side {
    return sideOf(who, databaseSession(who).role, this.#admins)
  }

  /** A connection for a transaction, until it is released. */
  #hold(side: Side): Promise<{ connection: PooledConnection; release: () => void }> {
    return new Promise((resolve, reject) => {
      const start: PoolRequest['start'] = (connection, _timeoutMs, onDone) => {
        resolve({ connection, release: () => onDone(null) })
        return undefined
      }
      const onDone: Done = (error) => error && reject(error)
      const kind = side === 'writers' || side === 'readers' ? 'slow' : 'write'
      this.#scheduler.add({ side, kind, text: '', timeoutMs: 0, start, onDone })
    })
  }

  async #txApart<T>(who: Identity, work: (tx: Tx) => Promise<T>, options: ApartOptions<T>): Promise<T> {
    const { signal, isSnapshot, isRepeatable, once } = options
    await this.#requirePrimary()
    const session = this.#session(who)
    const connection = await this.#open(loginOf(this.#sideOf(who)), this.#options.preparedStatements).catch(
      (error: unknown) => {
        throw fromPg(error)
      },
    )
    const leave = (): void => connection.destroy()
    signal?.addEventListener('abort', leave, { once: true })
    try {
      if (signal?.aborted) throw aborted()
      const keeping = once && keepingIn(this.#options.logKey ?? '', once)
      const note = isSnapshot ? undefined : this.#noting(connection, who)
      const begin = isSnapshot ? SNAPSHOT : isRepeatable ? REPEATABLE : 'begin'
      for (let tries = 1; ; tries++) {
        try {
          return await runTransaction(connection, session, work, begin, keeping, note)
        } catch (error) {
          if (!isRepeatable || !isWorthRetrying(error, tries)) throw error
          await backOff(error, tries)
        }
      }
    } catch (error) {
      throw failureFor(who, error)
    } finally {
      signal?.removeEventListener('abort', leave)
      void connection.close()
    }
  }

  #noting(connection: PooledConnection, who: Identity): (() => Promise<void>) | undefined {
    if (!this.#options.positions) return undefined
    return () => new Promise((resolve) => this.#note(connection, who, resolve))
  }

  /** Where the log ends after what was sent before; unknown when the connection is lost. */
  #note(connection: PooledConnection, who: Identity, noted: () => void): void {
    const { positions } = this.#options
    const flight = new Flight({ steps: [POSITION], role: '' }, (error, { values }) => {
      const [at] = values
      if (error || typeof at !== 'string') positions?.lost()
      else positions?.wrote(who, endOfRecord(lsnOf(at)))
      noted()
    })
    connection.send(flight)
  }

  listen(channel: string, onNotify: (payload: string) => void, onReconnect?: () => void) {
    return this.#monitor.listen(channel, onNotify, onReconnect)
  }

  async stop(): Promise<void> {
    this.#isClosed = true
    this.#release(false)
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
    if (options.row === undefined) return countDbWait(fly(), statements)
    // PostgreSQL lets no two writes at one row anyway; but what waits there holds a connection.
    const patience = { signal: options.signal, timeoutMs: LOCK_TIMEOUT_MS, onTimeout: lockedOut }
    return countDbWait(this.#rowLocks.run(options.row, fly, patience), statements)
  }

  async #open(login: LoginSide, isPrepared: boolean, events: ConnectionEvents = NO_EVENTS): Promise<Connection> {
    const { callerLogin, adminLogins } = this.#options
    const { url, mustWrite } = this.#pooled
    const logins = {
      own: undefined,
      callers: callerLogin,
      writers: adminLogins?.writers,
      readers: adminLogins?.readers,
    }
    const connect: ConnectOptions = { url, mustWrite, login: logins[login] }
    const names = isPrepared ? this.#names : undefined
    const connection = await Connection.open({ connect, receiving: this.#receiving, names }, events)
    if (!isPrepared) return connection
    return new Promise((resolve, reject) => {
      const plan = { steps: [{ text: WARMING, values: [] }], role: '' }
      connection.send(new Flight(plan, (error) => (error ? reject(error) : resolve(connection))))
    })
  }

  /** Where another host may soon be the primary, it is waited for. */
  async #requirePrimary(): Promise<void> {
    if (!this.#isDown && !this.#isClosed) return
    if (!this.#direct.hasOthers || !(await this.#whenAvailable())) throw databaseUnavailable()
  }

  /** False when the database is not there after `acquire_timeout`. */
  #whenAvailable(): Promise<boolean> {
    if (this.#isClosed) return Promise.resolve(false)
    if (!this.#isDown) return sleep(LOST_MS).then(() => !this.#isDown || this.#whenAvailable())
    return new Promise((resolve) => {
      const end = (isThere: boolean): void => {
        clearTimeout(timer)
        this.#awaiting.delete(end)
        resolve(isThere)
      }
      const timer = setTimeout(end, this.#options.acquireTimeoutMs, false)
      this.#awaiting.add(end)
    })
  }

  #release(isThere: boolean): void {
    for (const end of this.#awaiting) end(isThere)
  }

  /** While the database is away requests are refused at once; the monitor notices its return. */
  #onState(state: MonitorState): void {
    if (state === 'hung') this.#scheduler.destroyAll()
    this.#isDown = state !== 'ok'
    if (this.#isDown) this.#scheduler.failWaiters()
    else {
      void this.#scheduler.warm().catch(() => {}) // reported through onOpenFailed
      if (this.#awaiting.size > 0) this.#release(true)
    }
  }

  #openFailed(error: Error, login: LoginSide): void {
    if (this.#isClosed || (isTooManyClients(error) && this.#scheduler.sizeOf('own') > 0)) return
    const isRefused = login !== 'own' && isLoginRefused(error)
    if (isRefused) {
      const message = login === 'callers' ? 'callers cannot log in' : 'administrators cannot log in'
      this.#options.observe({ message, attrs: { error: error.message } })
    }
    // The pooler may have other hosts than the database.
    if (this.#pooled !== this.#direct && this.#pooled.hasOthers) {
      void this.#pooled.find().then(
        ({ client }) => client.end().catch(() => {}),
        () => {}, // the next connection says so again
      )
    }
    // Until the monitor's next ping.
    this.#isDown ||= !isRefused
    this.#scheduler.failWaiters(isRefused ? [login] : undefined)
  }
}

const valuesOnce =
  (statements: Sql | Statements) =>
  ({ values }: Flight): unknown =>
    statements instanceof Sql ? (values[ONCE_STEPS] ?? null) : values.slice(ONCE_STEPS, -1)

/** A write of a caller who may only read is no sign of a database that takes none. */
const failureFor = (who: Identity, error: unknown): unknown =>
  mayOnlyRead(who) && isReadOnlyError(error) ? writeRefusal(who) : fromPg(refusedWrite(error, who))

const NO_OPTIONS: LaunchOptions = {}
/** Not the flushed end: a function may have committed without waiting for the flush. */
const POSITION = { text: 'select pg_catalog.pg_current_wal_insert_lsn()', values: [] }
const anyServer = (url: string): string => `${url}${url.includes('?') ? '&' : '?'}target_session_attrs=any`
const NO_EVENTS: ConnectionEvents = { onRoom: () => {}, onClosed: () => {} }
const REPEATABLE = 'begin isolation level repeatable read'
const SNAPSHOT = `${REPEATABLE}, read only`
