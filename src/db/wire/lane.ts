import { type AppError, databaseUnavailable } from '../../core/errors.ts'
import type { OwnLoad } from '../own-load.ts'
import { type Connection, type ConnectionEvents, HELD_UP_TICKS } from './connection.ts'
import type { Flight, Work } from './flight.ts'
import { Suspicion } from './suspicion.ts'

export type LaneOptions = {
  max: number
  min: number
  /** Reads that may be on the wire of one connection. */
  depth: number
  /** Reads on each connection before another one is put to work beside it. */
  spread: number
  /** Connections that reads are put on before they wait; more only in place of those held up by a slow one. */
  crowd: number
  /** While this process keeps a core busy, PostgreSQL has one fewer. */
  ownLoad?: OwnLoad | undefined
  acquireTimeoutMs: number
  open(events: ConnectionEvents): Promise<Connection>
  /** Told about each failure and success to connect, so that the pool knows whether the database is there. */
  onOpened(): void
  onOpenFailed(error: Error): void
}

/** What waits for a connection: a flight, or a transaction. */
type Passenger = {
  readonly work: Work
  readonly statement: string
  readonly isOver: boolean
  deadline: number
  board(connection: Connection): void
  end(error: AppError): void
}

const TICK_MS = 10
/** A read at work for this long counts as slow work, and is made to wait its turn as such when others need room. */
const LONG_TICKS = 5
/** Rounds of trimming after which an unused connection is ended. */
const IDLE_ROUNDS = 4
/** By then those who hold a connection up are found out, or a connection was opened. */
const TRIAL_PATIENCE_MS = 5 * TICK_MS
/** A write at work for this long waits for a lock, and counts as slow work when others find no room. */
const LONG_WRITE_TICKS = 20

type Kind = NonNullable<Connection['alone']>
/** In the order in which they are served. */
const KINDS: readonly Kind[] = ['read', 'write', 'trial', 'slow']

/**
 * The connections of one login. Reads share some of them; whatever may wait for a lock or take long has one to itself.
 * A part is kept for each kind, so that slow work leaves room for writes, and both leave room for reads; see
 * docs/decisions/0004-lanes-and-shared-connections.md.
 */
export class Lane {
  readonly #options: LaneOptions
  #connections: Connection[] = []
  readonly #queues: Record<Kind, Passenger[]> = { read: [], write: [], trial: [], slow: [] }
  readonly #suspicion = new Suspicion()
  /** Most connections that may have one flight to themselves, may be so when a trial begins, and may be at slow work. */
  readonly #maxAlone: number
  readonly #maxBeforeTrial: number
  readonly #maxSlow: number
  #opening = 0
  #ticker: NodeJS.Timeout | undefined
  /** The time of the last tick, in performance.now() milliseconds. */
  #now = 0
  #closed = false

  constructor(options: LaneOptions) {
    this.#options = options
    const part = Math.ceil(options.max / 4)
    this.#maxAlone = Math.max(1, options.max - part)
    this.#maxBeforeTrial = Math.max(2, this.#maxAlone - 1)
    this.#maxSlow = Math.max(1, options.max - 2 * part)
  }

  get size(): number {
    return this.#connections.length
  }
  get idle(): number {
    return this.#connections.filter(({ isFree }) => isFree).length
  }
  get waiting(): number {
    const { read, write, trial, slow } = this.#queues
    return read.length + write.length + trial.length + slow.length
  }

  /** Sends a flight as soon as there is room for it. */
  add(passenger: Passenger): void {
    this.#watch()
    const kind = this.#kindOf(passenger)
    const connection = this.#queues[kind].length === 0 ? this.#pick(kind) : undefined
    if (connection) board(passenger, kind, connection)
    else if (this.#closed) passenger.end(databaseUnavailable())
    else {
      passenger.deadline ||= this.#now + this.#options.acquireTimeoutMs
      this.#enqueue(passenger, kind)
    }
  }

  #kindOf({ work, statement, deadline }: Passenger): Kind {
    if (work !== 'read' || this.#maxAlone < 2 || this.#suspicion.trusts(statement)) return work
    if (this.#suspicion.isOn(this.#now) || deadline === 0) return 'trial'
    // While nothing is held up nobody waits long for a trial: most statements are short.
    return deadline - this.#options.acquireTimeoutMs + TRIAL_PATIENCE_MS > this.#now ? 'trial' : 'read'
  }

  /** What is new comes before what was long already. */
  #enqueue(passenger: Passenger, kind: Kind): void {
    const queue = this.#queues[kind]
    const isBefore = kind === 'trial' && !this.#suspicion.condemns(passenger.statement)
    const at = isBefore ? queue.findIndex(({ statement }) => this.#suspicion.condemns(statement)) : -1
    if (at < 0) queue.push(passenger)
    else queue.splice(at, 0, passenger)
  }

  /** A connection for a transaction. The caller releases it. */
  hold(): Promise<Connection> {
    return new Promise((resolve, reject) => {
      this.add({
        work: 'write',
        statement: '',
        isOver: false,
        deadline: 0,
        board: (connection) => {
          connection.hold()
          resolve(connection)
        },
        end: reject,
      })
    })
  }

  /** The database is not there: nobody waits for it. */
  failWaiters(): void {
    for (const work of KINDS) {
      for (const passenger of this.#queues[work].splice(0)) passenger.end(databaseUnavailable())
    }
  }

  /** Opens the minimum. */
  async warm(): Promise<void> {
    const missing = Math.max(0, this.#options.min - this.#connections.length - this.#opening)
    await Promise.all(Array.from({ length: missing }, () => this.#open()))
  }

  /** Ends connections that nobody used for a while. */
  trim(): void {
    for (const connection of [...this.#connections]) {
      if (this.#connections.length <= this.#options.min) return
      if (!connection.isFree || ++connection.idleRounds <= IDLE_ROUNDS) continue
      this.#forget(connection)
      void connection.close()
    }
  }

  destroyAll(): void {
    for (const connection of this.#connections) connection.destroy()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#ticker)
    this.failWaiters()
    await Promise.all(this.#connections.map((connection) => connection.close()))
  }

  #pick(kind: Kind): Connection | undefined {
    return kind === 'read' ? this.#pickShared() : this.#pickAlone(kind)
  }

  /** The least busy of as few connections as suffice, not counting those held up by a slow flight. */
  #pickShared(): Connection | undefined {
    const { depth, spread, crowd, ownLoad } = this.#options
    let reads = 0
    for (const connection of this.#connections) if (isQuick(connection)) reads += connection.load
    const most = ownLoad?.isHigh ? crowd - 1 : crowd
    const enough = Math.min(most, Math.ceil((reads + 1) / spread))
    let best: Connection | undefined
    let seen = 0
    for (const connection of this.#connections) {
      if (!isQuick(connection)) continue
      if (connection.load < (best?.load ?? depth)) best = connection
      if (++seen === enough) break
    }
    if (seen + this.#opening < enough) this.#grow()
    return best
  }

  #pickAlone(kind: Kind): Connection | undefined {
    let free: Connection | undefined
    let alone = 0
    let slow = 0
    let trials = 0
    for (const connection of this.#connections) {
      if (connection.isFree) free ??= connection
      else if (connection.alone !== undefined || connection.age >= LONG_TICKS) {
        alone++
        if (isSlow(connection)) slow++
        else if (connection.alone === 'trial') trials++
      }
    }
    if (alone >= this.#maxAlone) return undefined
    if (kind === 'slow' && slow >= this.#maxSlow) return undefined
    if (kind === 'trial' && alone >= this.#maxBeforeTrial) return undefined
    if (kind === 'trial' && trials >= this.#options.crowd && this.#suspicion.isOn(this.#now)) return undefined
    const { write, trial, slow: slowQueue } = this.#queues
    if (!free && this.#opening <= write.length + trial.length + slowQueue.length) this.#grow()
    return free
  }

  #grow(): void {
    if (this.#closed || this.#connections.length + this.#opening >= this.#options.max) return
    this.#open().catch(() => {}) // reported through onOpenFailed
  }

  async #open(): Promise<void> {
    this.#opening++
    try {
      const connection = await this.#options.open({
        onFreed: () => {
          if (this.waiting > 0) this.#serve()
        },
        onQuick: (statement) => this.#suspicion.inTime(statement),
        onClosed: (closed) => {
          this.#forget(closed)
          if (this.waiting > 0) this.#grow()
        },
      })
      if (this.#closed) return void connection.close()
      this.#connections.push(connection)
      this.#options.onOpened()
    } catch (error) {
      this.#options.onOpenFailed(error as Error)
      throw error
    } finally {
      this.#opening--
    }
    this.#serve()
  }

  #forget(connection: Connection): void {
    this.#connections = this.#connections.filter((known) => known !== connection)
  }

  #serve(): void {
    for (const kind of KINDS) {
      const queue = this.#queues[kind]
      for (let next = queue[0]; next; next = queue[0]) {
        const connection = next.isOver ? undefined : this.#pick(kind)
        if (!connection && !next.isOver) break
        queue.shift()
        if (connection) board(next, kind, connection)
      }
    }
  }

  /** Ticks while anything is under way. Counting ticks, a moment in which this process itself was late counts once. */
  #watch(): void {
    if (this.#ticker) return
    this.#now = performance.now()
    this.#ticker = setInterval(() => this.#tick(), TICK_MS)
    this.#ticker.unref()
  }

  #tick(): void {
    this.#now = performance.now()
    this.#options.ownLoad?.look()
    let isBusy = false
    const moved: Flight[] = []
    for (const connection of this.#connections) {
      if (!connection.isBusy) continue
      isBusy = true
      connection.age++
      connection.cancelUnwanted()
      if (connection.alone !== undefined && connection.alone !== 'trial') continue
      if (connection.age === HELD_UP_TICKS) this.#suspicion.heldUp(connection.statement, this.#now)
      if (connection.isHeldUp && connection.load > 1) moved.push(...connection.takeFollowers())
    }
    for (const flight of moved) flight.deadline ||= this.#now + this.#options.acquireTimeoutMs
    this.#queues.read.unshift(...moved)
    if (this.waiting > 0) {
      this.#expire()
      this.#sortReads()
      this.#makeRoom()
      this.#serve()
    } else if (!isBusy) {
      clearInterval(this.#ticker)
      this.#ticker = undefined
    }
  }

  /** What was learned meanwhile counts for those that wait, too. */
  #sortReads(): void {
    const { read, trial } = this.#queues
    if (trial.length === 0 && !this.#suspicion.isOn(this.#now)) return
    this.#queues.read = []
    this.#queues.trial = []
    const inOrder = [...read, ...trial].sort((a, b) => a.deadline - b.deadline)
    for (const passenger of inOrder) this.#enqueue(passenger, this.#kindOf(passenger))
  }

  #expire(): void {
    for (const kind of KINDS) {
      const queue = this.#queues[kind]
      const late = queue.filter(({ deadline }) => deadline <= this.#now)
      if (late.length === 0) continue
      this.#queues[kind] = queue.filter(({ deadline }) => deadline > this.#now)
      for (const passenger of late) passenger.end(databaseUnavailable())
    }
  }

  /**
   * What turned out slow may hold no more connections than slow work may; the latest go back to the queue. Writes go
   * only when others find no room.
   */
  #makeRoom(): void {
    const { read, write, trial } = this.#queues
    if (read.length + write.length + trial.length === 0) return
    const isLong = ({ alone, isBusy, age }: Connection): boolean =>
      alone !== 'slow' && isBusy && age >= (alone === 'write' ? LONG_WRITE_TICKS : LONG_TICKS)
    const long = this.#connections.filter(isLong).sort((a, b) => a.age - b.age)
    const slow = this.#connections.filter(({ alone }) => alone === 'slow').length
    for (const connection of long.slice(0, Math.max(0, slow + long.length - this.#maxSlow))) {
      if (connection.alone === 'write') {
        if (write.length + trial.length > 0) connection.cutWriteShort()
      } else {
        const again = connection.cutReadShort()
        if (again) this.add(again)
      }
    }
  }
}

/** A read that is on trial has the connection to itself until it is answered. */
function board(passenger: Passenger, kind: Kind, connection: Connection): void {
  if (kind === 'trial') connection.alone = kind
  passenger.board(connection)
}

const isSlow = ({ alone, age }: Connection): boolean => alone === 'slow' || (alone !== 'write' && age >= LONG_TICKS)

const isQuick = (connection: Connection): boolean =>
  !connection.closed && connection.alone === undefined && !connection.isHeldUp
