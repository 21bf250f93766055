import { availableParallelism } from 'node:os'
import { sleep } from '../../core/clock.ts'
import type { Departure } from '../../core/departure.ts'
import { AppError, unavailable } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db, FlyOptions, Row, Tx } from '../db.ts'
import { fromPg, type PgError } from '../pg-errors.ts'
import { Sql } from '../sql.ts'
import { toRow, toText } from '../values.ts'
import { type ConnectOptions, openConnection } from './connect.ts'
import { Connection } from './connection.ts'
import type { Step, StepResult } from './flight.ts'
import { Lane } from './lane.ts'
import { Monitor } from './monitor.ts'
import { createSessionStep } from './session.ts'
import { runTransaction } from './tx.ts'

export type PoolOptions = {
  url: string
  /** Bypasses a transaction pooler, for LISTEN; default `url`. */
  directUrl?: string
  maxConns: number
  minConns: number
  acquireTimeoutMs: number
  preparedStatements: boolean
  schemas: readonly string[]
  statementTimeoutMs: number
  /** See SessionSettings. */
  logKey?: string
  observe: Observe
}

export type PoolStats = { total: number; idle: number; inUse: number; max: number }

export interface Pool extends Db {
  state(): 'ok' | 'unreachable'
  stats(): PoolStats
  /** A connection of its own, on the direct URL, for work that must leave nothing behind. The caller ends it. */
  openConnection(): ReturnType<typeof openConnection>
  stop(): Promise<void>
}

/** More flights than this on one connection only make the last one wait longer; see bench/. */
const PIPELINE_DEPTH = 4
/** statementIndex of the step that sets the identity. */
const SESSION_STEP = -1
const TRIM_EVERY_MS = 15_000
const MAX_RETRIES = 3
const MAX_BACKOFF_MS = 500

export async function openPool(options: PoolOptions): Promise<Pool> {
  const pool = new PostgresPool(options)
  await pool.start()
  return pool
}

/** Splits the connections: reads by id never wait behind an RPC, and transactions never behind either. */
function laneSizes(max: number): { fast: number; slow: number; transactions: number } {
  const fast = Math.max(1, Math.ceil(max * 0.4))
  const transactions = Math.max(1, Math.floor((max - fast) / 3))
  return { fast, transactions, slow: Math.max(1, max - fast - transactions) }
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
  readonly #fast: Lane
  readonly #slow: Lane
  readonly #transactions: Lane
  readonly #monitor: Monitor
  readonly #session: ReturnType<typeof createSessionStep>
  readonly #trimTimer: NodeJS.Timeout
  #down: Error | undefined
  #closed = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.#connect = { url: options.url }
    this.#session = createSessionStep(options)
    const sizes = laneSizes(options.maxConns)
    const crowd = isNearby(options.url) ? Math.max(2, availableParallelism()) : sizes.fast
    this.#fast = this.#lane(sizes.fast, Math.min(options.minConns, sizes.fast), PIPELINE_DEPTH, crowd)
    this.#slow = this.#lane(sizes.slow, 0, 1)
    // With a pool of two, RPC and transactions share the second connection.
    this.#transactions = options.maxConns < 3 ? this.#slow : this.#lane(sizes.transactions, 0, 1)
    this.#monitor = new Monitor(options.directUrl ?? options.url, options.observe, (state) => this.#onState(state))
    this.#trimTimer = setInterval(() => {
      for (const lane of this.#lanes()) lane.trim()
    }, TRIM_EVERY_MS)
    this.#trimTimer.unref()
  }

  #lane(max: number, min: number, depth: number, crowd = max): Lane {
    return new Lane({
      max,
      min,
      depth,
      crowd,
      acquireTimeoutMs: this.#options.acquireTimeoutMs,
      open: (onClose) => Connection.open(this.#connect, this.#options.preparedStatements, onClose),
      onOpened: () => {
        this.#down = undefined
      },
      onOpenFailed: (error) => this.#openFailed(error),
    })
  }

  #lanes(): Set<Lane> {
    return new Set([this.#fast, this.#slow, this.#transactions])
  }

  async start(): Promise<void> {
    await this.#monitor.start()
    await this.#fast.warm()
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
    return openConnection({ url: this.#options.directUrl ?? this.#options.url }).catch((error: PgError) => {
      throw fromPg(error)
    })
  }

  async fly(who: Identity, statements: Sql | readonly [Sql, ...Sql[]], options?: FlyOptions): Promise<string | null> {
    return (await this.#fly(who, statements, options, false)).rows[0]?.[0] ?? null
  }

  async flyAll(who: Identity, statements: readonly [Sql, ...Sql[]], options?: FlyOptions): Promise<(string | null)[]> {
    const results = await this.#flyAll(who, statements, options, false)
    return results.slice(1).map(({ rows }) => rows[0]?.[0] ?? null) // the first is the session's
  }

  async rows<T extends object = Row>(
    who: Identity,
    statements: Sql | readonly [Sql, ...Sql[]],
    options?: FlyOptions,
  ): Promise<T[]> {
    const { rows, fields } = await this.#fly(who, statements, options, true)
    return rows.map((texts) => toRow(fields, texts) as T)
  }

  async run(who: Identity, statements: Sql | readonly [Sql, ...Sql[]], options?: FlyOptions): Promise<number> {
    return (await this.#fly(who, statements, options, false)).count
  }

  async tx<T>(who: Identity, work: (tx: Tx) => Promise<T>): Promise<T> {
    const lane = this.#transactions
    for (let tries = 1; ; tries++) {
      const connection = await this.#acquire(lane)
      try {
        return await runTransaction(connection, this.#session(who), work)
      } catch (error) {
        await this.#orGiveUp(error, tries)
      } finally {
        lane.release(connection)
      }
    }
  }

  listen(channel: string, heard: (payload: string) => void, reconnected?: () => void): Promise<() => Promise<void>> {
    return this.#monitor.listen(channel, heard, reconnected)
  }

  async stop(): Promise<void> {
    this.#closed = true
    clearInterval(this.#trimTimer)
    await Promise.all([this.#monitor.stop(), ...[...this.#lanes()].map((lane) => lane.close())])
  }

  async #fly(
    who: Identity,
    statements: Sql | readonly [Sql, ...Sql[]],
    options: FlyOptions | undefined,
    describe: boolean,
  ): Promise<StepResult> {
    const results = await this.#flyAll(who, statements, options, describe)
    return results[results.length - 1] as StepResult
  }

  async #flyAll(
    who: Identity,
    statements: Sql | readonly [Sql, ...Sql[]],
    options: FlyOptions = {},
    describe: boolean,
  ): Promise<StepResult[]> {
    const { step, role } = this.#session(who, options.timeoutMs)
    const steps =
      statements instanceof Sql
        ? [step, toStep(statements)]
        : [step, ...statements.map((statement) => toStep(statement))]
    const sending = { describe, signal: options.signal }
    if (options.lane === 'own') return this.#flyAlone(steps, role, sending)
    const lane = options.lane === 'slow' ? this.#slow : this.#fast
    for (let tries = 1; ; tries++) {
      if (options.signal?.aborted) throw new AppError('request_timeout', 'request was aborted')
      const acquired = this.#acquire(lane)
      const connection = acquired instanceof Promise ? await acquired : acquired
      try {
        return await connection.send(steps, role, sending)
      } catch (error) {
        const failed = error as PgError
        if (failed.statementIndex !== undefined) failed.statementIndex -= 1 // the session step is ours
        if (failed.statementIndex === SESSION_STEP) connection.retire()
        await this.#orGiveUp(failed, tries, options.signal)
      } finally {
        lane.release(connection)
      }
    }
  }

  /** Not repeated: who takes this lane has a queue, or a person, that does. */
  async #flyAlone(
    steps: readonly Step[],
    role: string,
    sending: { describe: boolean; signal: FlyOptions['signal'] },
  ): Promise<StepResult[]> {
    if (this.#down || this.#closed) throw unavailable('database unavailable')
    const connection = await Connection.open(this.#connect, false, () => {}).catch((error: unknown) => {
      throw toAppError(error)
    })
    try {
      if (sending.signal?.aborted) throw new AppError('request_timeout', 'request was aborted')
      return await connection.send(steps, role, sending)
    } catch (error) {
      const failed = error as PgError
      if (failed.statementIndex !== undefined) failed.statementIndex -= 1 // the session step is ours
      throw toAppError(error)
    } finally {
      void connection.close()
    }
  }

  #acquire(lane: Lane): Promise<Connection> | Connection {
    if (this.#down || this.#closed) throw unavailable('database unavailable')
    return lane.acquire()
  }

  /**
   * Throws, unless it is worth trying again: a flight or transaction is all or nothing, so one that PostgreSQL rolled
   * back for reasons of its own may be flown again.
   */
  async #orGiveUp(error: unknown, tries: number, signal?: Departure): Promise<void> {
    const cause = (error instanceof AppError ? error.cause : error) as PgError | undefined
    if (tries > MAX_RETRIES || !cause || !isWorthRetrying(cause, signal)) throw toAppError(error)
    if (cause.code === '40001' || cause.code === '40P01') await sleep(Math.random() * 20 * tries)
  }

  #onState(state: 'ok' | 'unreachable' | 'hung'): void {
    if (state === 'hung') for (const lane of this.#lanes()) lane.destroyAll()
    if (state === 'ok') this.#recovered()
    else this.#openFailed(new Error(`database ${state}`))
  }

  #openFailed(error: Error): void {
    if (this.#closed) return
    const isTransient = (error as PgError).code === '53300' // too many clients: the ones we have still work
    if (isTransient && this.#fast.size > 0) return
    if (!this.#down) void this.#probe()
    this.#down = error
    for (const lane of this.#lanes()) lane.failWaiters(unavailable('database unavailable'))
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
    void this.#fast.warm().catch(() => {})
  }
}

function toStep(statement: Sql): Step {
  const { text, values } = statement.render()
  return { text, values: values.map(toText) }
}

function isWorthRetrying(error: PgError, signal: Departure | undefined): boolean {
  switch (error.code) {
    case '40001': // serialisation failure
    case '40P01': // deadlock
    case '26000': // a pipelined neighbour failed before the Parse this flight relied on
      return true
    case '0A000':
      return error.message.includes('cached plan')
    case '57014':
      // A cancel meant for a neighbour on the same connection came late and hit this flight, or a function left
      // its own statement_timeout behind.
      return !signal?.aborted && (error.message.includes('user request') || error.statementIndex === SESSION_STEP)
    default:
      return false
  }
}

const toAppError = (error: unknown): AppError => (error instanceof AppError ? error : fromPg(error as PgError))
