import { availableParallelism } from 'node:os'
import { budgets } from '../../core/budgets.ts'
import { sleep } from '../../core/clock.ts'
import { AppError, databaseUnavailable } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { waitedFor } from '../../core/timing.ts'
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
import { OwnLoad } from '../own-load.ts'
import { fromPg, isCrowded, isLoginRefused, type PgError } from '../pg-errors.ts'
import { breather, isWorthRetrying, SESSION_STEP } from '../retries.ts'
import { Sql } from '../sql.ts'
import { type ConnectOptions, type Login, openConnection } from './connect.ts'
import { Connection } from './connection.ts'
import { Flight, type FlightPlan, stepOf, type Work } from './flight.ts'
import { Lane } from './lane.ts'
import { Monitor } from './monitor.ts'
import { RowTurns } from './row-turns.ts'
import { createSessionStep } from './session.ts'
import { runTransaction } from './tx.ts'

export type PoolOptions = {
  url: string
  /** Bypasses a transaction pooler, for LISTEN; default `url`. */
  directUrl?: string
  /** Who callers' requests connect as; default: as the server itself. */
  callerLogin?: Login | undefined
  maxConns: number
  minConns: number
  acquireTimeoutMs: number
  preparedStatements: boolean
  schemas: readonly string[]
  statementTimeoutMs: number
  /** See SessionSettings. */
  logKey?: string
  observe: Observe
  /** Default: measured. */
  ownLoad?: OwnLoad
}

export type PoolStats = { total: number; idle: number; inUse: number; max: number }

export interface Pool extends Db, Notifications {
  state(): 'ok' | 'unreachable'
  stats(): PoolStats
  /** A connection of its own, on the direct URL, for work that must leave nothing behind. The caller ends it. */
  openConnection(): ReturnType<typeof openConnection>
  stop(): Promise<void>
}

/** Another connection is put to work when those at work have this many flights each, as long as that may help. */
const PIPELINE_SPREAD = 4
/** With more on the wire PostgreSQL and the server go to sleep less often; see bench/. */
const PIPELINE_DEPTH = 16
const TRIM_EVERY_MS = 15_000
const MAX_BACKOFF_MS = 500

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

class PostgresPool implements Pool {
  readonly #options: PoolOptions
  readonly #connect: ConnectOptions
  readonly #connectCallers: ConnectOptions
  /** The server's own work: connections that callers cannot fill. */
  readonly #own: Lane
  readonly #callers: Lane
  readonly #turns = new RowTurns()
  readonly #monitor: Monitor
  readonly #session: ReturnType<typeof createSessionStep>
  readonly #trimTimer: NodeJS.Timeout
  #down: Error | undefined
  #closed = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.#connect = { url: options.url }
    this.#connectCallers = { url: options.url, login: options.callerLogin }
    this.#session = createSessionStep(options)
    const own = Math.max(options.maxConns < 4 ? 1 : 2, Math.floor(options.maxConns * 0.4))
    const callers = Math.max(1, options.maxConns - own)
    this.#own = this.#lane(own, 1, this.#connect, (error) => this.#openFailed(error))
    const callersMin = Math.min(callers, Math.max(1, options.minConns - 1))
    this.#callers = this.#lane(callers, callersMin, this.#connectCallers, (error) => this.#callersOpenFailed(error))
    this.#monitor = new Monitor(options.directUrl ?? options.url, options.observe, (state) => this.#onState(state))
    this.#trimTimer = setInterval(() => {
      for (const lane of this.#lanes()) lane.trim()
    }, TRIM_EVERY_MS)
    this.#trimTimer.unref()
  }

  #lane(max: number, min: number, connect: ConnectOptions, onOpenFailed: (error: Error) => void): Lane {
    const nearby = isNearby(this.#options.url)
    const crowd = nearby ? Math.max(2, availableParallelism()) : Math.ceil(max / 2)
    return new Lane({
      max,
      min,
      depth: PIPELINE_DEPTH,
      spread: PIPELINE_SPREAD,
      crowd,
      ownLoad: nearby ? (this.#options.ownLoad ?? new OwnLoad()) : undefined,
      acquireTimeoutMs: this.#options.acquireTimeoutMs,
      open: (events) => Connection.open(connect, this.#options.preparedStatements, events),
      onOpened: () => {
        this.#down = undefined
      },
      onOpenFailed,
    })
  }

  #lanes(): readonly Lane[] {
    return [this.#own, this.#callers]
  }

  async start(): Promise<void> {
    await Promise.all([this.#monitor.start(), ...this.#lanes().map((lane) => lane.warm())])
  }

  state(): 'ok' | 'unreachable' {
    return this.#monitor.state
  }

  stats(): PoolStats {
    let total = 0
    let idle = 0
    for (const lane of this.#lanes()) {
      total += lane.size
      idle += lane.idle
    }
    return { total, idle, inUse: total - idle, max: this.#options.maxConns }
  }

  openConnection() {
    return openConnection({ url: this.#options.directUrl ?? this.#options.url }).catch((error: unknown) => {
      throw fromPg(error)
    })
  }

  fly(who: Identity, statement: Sql, options: FlyOptions & AsBytes): Promise<Relayed | null>
  fly(who: Identity, statement: Sql, options?: FlyOptions): Promise<string | null>
  fly<const S extends Statements>(
    who: Identity,
    statements: S,
    options: FlyOptions & AsBytes,
  ): Promise<Values<S, Relayed>>
  fly<const S extends Statements>(who: Identity, statements: S, options?: FlyOptions): Promise<Values<S, string>>
  fly(who: Identity, statements: Sql | Statements, options?: FlyOptions & Partial<AsBytes>): Promise<unknown> {
    // The first value is that of the session step.
    return this.#fly(who, statements, options, 'value', ({ relayed }) =>
      statements instanceof Sql ? (relayed[1] ?? null) : relayed.slice(1),
    )
  }

  rows<T extends object = Row>(
    who: Identity,
    statements: Sql | Statements,
    options?: FlyOptions & Partial<AsBytes>,
  ): Promise<T[]> {
    return this.#fly(who, statements, options, 'rows', (flight) => flight.rows<T>())
  }

  run(who: Identity, statements: Sql | Statements, options?: FlyOptions): Promise<number> {
    return this.#fly(who, statements, options, 'value', ({ count }) => count)
  }

  async tx<T>(who: Identity, work: (tx: Tx) => Promise<T>, options?: ApartOptions): Promise<T> {
    if (options) return this.#txApart(who, work, options)
    for (let tries = 1; ; tries++) {
      this.#requireDatabase()
      const session = this.#session(who)
      const connection = await this.#laneOf(session.role).hold()
      try {
        return await runTransaction(connection, session, work)
      } catch (error) {
        if (!isWorthRetrying(error, tries)) throw fromPg(error)
        await breather(error, tries)
      } finally {
        connection.release()
      }
    }
  }

  async #txApart<T>(who: Identity, work: (tx: Tx) => Promise<T>, { signal, isSnapshot }: ApartOptions): Promise<T> {
    this.#requireDatabase()
    const session = this.#session(who)
    const connect = session.role === 'none' ? this.#connect : this.#connectCallers
    const idle = { onFreed: () => {}, onClosed: () => {} }
    const connection = await Connection.open(connect, true, idle).catch((error: unknown) => {
      throw fromPg(error)
    })
    const leave = (): void => connection.destroy()
    signal?.addEventListener('abort', leave, { once: true })
    try {
      if (signal?.aborted) throw new AppError('request_timeout', 'request was aborted')
      return await runTransaction(connection, session, work, isSnapshot ? SNAPSHOT : 'begin')
    } catch (error) {
      throw fromPg(error)
    } finally {
      signal?.removeEventListener('abort', leave)
      void connection.close()
    }
  }

  listen(channel: string, onNotify: (payload: string) => void, onReconnect?: () => void): Promise<() => Promise<void>> {
    return this.#monitor.listen(channel, onNotify, onReconnect)
  }

  async stop(): Promise<void> {
    this.#closed = true
    clearInterval(this.#trimTimer)
    await Promise.all([this.#monitor.stop(), ...this.#lanes().map((lane) => lane.close())])
  }

  #fly<T>(
    who: Identity,
    statements: Sql | Statements,
    options: FlyOptions & Partial<AsBytes> = NO_OPTIONS,
    wants: FlightPlan['wants'],
    answer: (flight: Flight) => T,
  ): Promise<T> {
    const fly = () => this.#flyNow(who, statements, options, wants, answer)
    return waitedFor(options.row === undefined ? fly() : this.#turns.take(options.row, options.signal, fly))
  }

  #flyNow<T>(
    who: Identity,
    statements: Sql | Statements,
    options: FlyOptions & Partial<AsBytes>,
    wants: FlightPlan['wants'],
    answer: (flight: Flight) => T,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const { signal } = options
      const { step, role } = this.#session(who, options.timeoutMs, options.lockTimeoutMs)
      const work = workOf(who, options)
      const lane = this.#laneOf(role)
      let tries = 0
      let newest: Flight
      const leave = (): void => abandon(newest)
      const launch = (flight: Flight): void => {
        tries++
        newest = flight
        if (signal?.aborted) flight.end(new AppError('request_timeout', 'request was aborted'))
        else if (this.#down || this.#closed) flight.end(databaseUnavailable())
        else if (options.kind === 'apart') void this.#flyApart(flight)
        else lane.add(flight)
      }
      const plan = {
        steps: [step, ...(statements instanceof Sql ? [stepOf(statements)] : statements.map(stepOf))],
        role,
        work,
        wants,
        relays: options.as === 'bytes',
        tidies: work !== 'read' && who.kind !== 'system' && options.plain !== true,
        maxBytes: options.maxBytes ?? budgets.answerBytes,
      }
      signal?.addEventListener('abort', leave, { once: true })
      launch(
        new Flight(plan, (flight, error) => {
          if (error !== null && !signal?.aborted) {
            if (!(error instanceof AppError)) this.#learnFrom(flight, error)
            if (options.kind !== 'apart' && isWorthRetrying(error, tries)) {
              void breather(error, tries).then(() => launch(flight.again(flight.isCutShort ? 'slow' : flight.work)))
              return
            }
          }
          signal?.removeEventListener('abort', leave)
          if (error === null) resolve(answer(flight))
          else reject(fromPg(error))
        }),
      )
    })
  }

  #learnFrom(flight: Flight, error: PgError): void {
    if (error.statementIndex === undefined) return
    error.statement = flight.plan.steps[error.statementIndex]?.text
    error.statementIndex -= 1 // the session step is ours
    // A caller left the session in a bad state.
    if (error.statementIndex === SESSION_STEP) void flight.connection?.close()
  }

  /** Not repeated: who asks for this has a queue, or a person, that does. */
  async #flyApart(flight: Flight): Promise<void> {
    const connect = flight.plan.role === 'none' ? this.#connect : this.#connectCallers
    try {
      const connection = await Connection.open(connect, false, {
        onFreed: () => void connection.close(),
        onClosed: () => {},
      })
      if (flight.isOver) void connection.close()
      else flight.board(connection)
    } catch (error) {
      flight.end(error as PgError)
    }
  }

  #laneOf(role: string): Lane {
    return role === 'none' ? this.#own : this.#callers
  }

  #requireDatabase(): void {
    if (this.#down || this.#closed) throw databaseUnavailable()
  }

  #onState(state: 'ok' | 'unreachable' | 'hung'): void {
    if (state === 'hung') for (const lane of this.#lanes()) lane.destroyAll()
    if (state === 'ok') this.#recovered()
    else this.#openFailed(new Error(`database ${state}`))
  }

  #openFailed(error: Error): void {
    if (this.#closed) return
    if (isCrowded(error) && this.#own.size > 0) return
    if (!this.#down) void this.#probe()
    this.#down = error
    for (const lane of this.#lanes()) lane.failWaiters()
  }

  #callersOpenFailed(error: Error): void {
    if (isLoginRefused(error)) {
      this.#options.observe({ message: 'callers cannot log in', attrs: { error: error.message } })
      this.#callers.failWaiters()
    } else this.#openFailed(error)
  }

  /** While the database is away requests are refused at once; this notices its return. */
  async #probe(): Promise<void> {
    for (let backoff = 50; ; backoff = Math.min(backoff * 2, MAX_BACKOFF_MS)) {
      await sleep(backoff)
      if (this.#closed || !this.#down) return
      try {
        const client = await openConnection({ ...this.#connect, connectTimeoutMs: 2_000 })
        await client.end().catch(() => {})
        if (this.#monitor.state === 'ok') return this.#recovered()
      } catch {
        // still away
      }
    }
  }

  #recovered(): void {
    this.#down = undefined
    for (const lane of this.#lanes()) void lane.warm().catch(() => {})
  }
}

const NO_OPTIONS: FlyOptions = {}
const SNAPSHOT = 'begin isolation level repeatable read, read only'

function workOf(who: Identity, { kind = 'write' }: FlyOptions): Work {
  // The operator's requests share the server's own connections, but never more of them than slow work may take.
  if (kind === 'slow' || who.kind === 'admin') return 'slow'
  return kind === 'read' ? 'read' : 'write'
}

/** The caller is gone. A flight that was sent again for it has a successor. */
function abandon(first: Flight): void {
  let flight = first
  while (flight.successor) flight = flight.successor
  if (flight.connection) flight.connection.abandon(flight)
  else flight.end(new AppError('request_timeout', 'request was aborted'))
}
