import { AppError, databaseUnavailable } from '../../core/errors.ts'
import { isCanceled, isCanceledByRequest, isConnectionError, isLockTimeout, type PgError } from '../pg-errors.ts'
import type { ConnectionEvents } from '../protocol/connection.ts'
import type { Flight } from '../protocol/flight.ts'
import type { BackendPriority } from './backend-priority.ts'
import type { SchedulerClock } from './clock.ts'
import { type ConnectionSlot, ConnectionSlots, type SlotOptions } from './connection-slots.ts'
import type { Done, PooledConnection, PoolRequest } from './request.ts'
import { type Kind, type LoginSide, loginOf, Reserves, type Share, type Side } from './reserves.ts'
import { StatementTimings } from './statement-timings.ts'
import {
  IDLE_CLOSE_MS,
  READ_LIMIT_MS,
  REBALANCE_IDLE_MS,
  SHARED_LOCK_MS,
  SHORT_WRITE_LIMIT_MS,
  TICK_MS,
  TRIM_EVERY_MS,
} from './tuning.ts'
import { WorkPriority } from './work-priority.ts'

export type SchedulerOptions = Pick<SlotOptions, 'crowd' | 'writers' | 'isNearby'> & {
  max: number
  min: Readonly<Record<LoginSide, number>>
  acquireTimeoutMs: number
  clock: SchedulerClock
  /** Undefined: backends have all the same share of the processor. */
  priority?: BackendPriority | undefined
  open(login: LoginSide, events: ConnectionEvents): Promise<PooledConnection>
  onOpenFailed(login: LoginSide, error: Error): void
}

type Waiter = {
  readonly request: PoolRequest
  kind: Kind
  /** When it is refused; 0 until it has to wait. */
  deadline: number
  /** Where it is at work. Fields and no closure: a closure kept the requests that follow on the slot from being freed young. */
  slot: ConnectionSlot | undefined
  flight: Flight | undefined
  wasCut: boolean
  isLeft: boolean
  isOver: boolean
}

const LOGINS: readonly LoginSide[] = ['own', 'callers', 'writers', 'readers']
/** Administrators' requests are all slow work, so they have no other queue. */
const SIDES: readonly Side[] = ['own', 'callers', 'behalf']
const ADMIN_SIDES: readonly Side[] = ['writers', 'readers']
const queues = (): Record<Kind, Waiter[]> => ({ read: [], probe: [], row: [], write: [], slow: [] })
/** What a request becomes when it took longer than its limit. */
const AFTER_CUT: Readonly<Record<Kind, Kind>> = {
  read: 'probe',
  probe: 'slow',
  row: 'write',
  write: 'slow',
  slow: 'slow',
}
const isWaiting = ({ isOver }: Waiter): boolean => !isOver
type Lane = { readonly side: Side; readonly kind: Kind }
const ALONE: readonly Lane[] = [
  ...(['row', 'write', 'probe', 'slow'] as const).flatMap((kind) => SIDES.map((side) => ({ side, kind }))),
  ...ADMIN_SIDES.map((side) => ({ side, kind: 'slow' as const })),
]
const LANES: readonly Lane[] = [...SIDES.map((side) => ({ side, kind: 'read' as const })), ...ALONE]

/**
 * Which request gets which connection, and when. Logins share `max` connections, and `Reserves` says how many each kind
 * of work may take. PostgreSQL itself finds what is slow: short work flies with a short `statement_timeout`, and what that
 * cuts is flown again as the next kind.
 *
 * | a request is | on a connection | PostgreSQL's limit | when cut, it becomes |
 * |---|---|---|---|
 * | read: known to be fast | shared, up to 16 at once | 50 ms | probe, and its text stays fast |
 * | probe: a read of unknown text | alone, one per text at a time | 50 ms | slow, and its text for 10 s |
 * | row: a small write without user code | alone while few are at work, else shared, up to 4 at once | 200 ms, 20 ms for a lock | write |
 * | write on the reserve | alone | 200 ms | slow |
 * | write elsewhere, slow | alone | its own timeout | – |
 *
 * | a connection is | because | until |
 * |---|---|---|
 * | opening | a request waits that `Reserves` admits, and there are fewer than `max` | it is logged in, then resting |
 * | resting | nothing is on it | work comes; 60 s pass; the other login needs its slot; another connection went without a word |
 * | shared | reads, or small writes, are on it | the last one is answered |
 * | alone | a probe, a write, slow work or a transaction is on it | that is done |
 * | closing | it rested too long, its session failed, or the pool ends | its socket is closed: its slot is free |
 */
export class ConnectionScheduler {
  readonly #options: SchedulerOptions
  readonly #reserves: Reserves
  readonly #timings = new StatementTimings()
  readonly #queues: Readonly<Record<Side, Record<Kind, Waiter[]>>> = {
    own: queues(),
    callers: queues(),
    behalf: queues(),
    writers: queues(),
    readers: queues(),
  }
  readonly #busy: Record<Share, number> = { own: 0, reads: 0, short: 0, long: 0 }
  readonly #opening: Record<LoginSide, number> = { own: 0, callers: 0, writers: 0, readers: 0 }
  /** Texts of the probes at work. */
  readonly #probing = new Set<string>()
  readonly #slots: ConnectionSlots
  readonly #workPriority: WorkPriority | undefined
  /** Which of ALONE is next. */
  #turn = 0
  /** While anything waits. */
  #stopTicking: (() => void) | undefined
  readonly #stopTrimming: () => void
  #isClosed = false

  constructor(options: SchedulerOptions) {
    this.#options = options
    this.#reserves = new Reserves(options.max)
    const { crowd, writers, isNearby, clock, priority } = options
    this.#workPriority = priority && new WorkPriority(priority, clock)
    this.#slots = new ConnectionSlots({
      crowd,
      writers,
      isNearby,
      now: () => clock.now(),
      onFewReaders: (side) => this.#grow(side, 'read'),
    })
    this.#stopTrimming = options.clock.every(TRIM_EVERY_MS, () => this.#trim())
  }

  get size(): number {
    return this.#slots.all.length
  }
  get idle(): number {
    return this.#slots.all.filter(({ work }) => !work).length
  }
  sizeOf(login: LoginSide): number {
    return this.#slots.of(login).length
  }

  /** Starts the request as soon as there is room for it. Answers what to call when its caller is gone. */
  add(request: PoolRequest): () => void {
    const kind = this.#kindOf(request)
    const waiter: Waiter = {
      request,
      kind,
      deadline: 0,
      slot: undefined,
      flight: undefined,
      wasCut: false,
      isLeft: false,
      isOver: false,
    }
    this.#place(waiter)
    return () => this.#leave(waiter)
  }

  /** The database is not there, or does not let a side in: nothing waits for it. */
  failWaiters(sides: readonly Side[] = [...SIDES, ...ADMIN_SIDES]): void {
    for (const waiter of this.#waiting()) {
      if (sides.includes(waiter.request.side)) this.#finish(waiter, databaseUnavailable())
    }
  }

  /** Opens the minimum. */
  async warm(): Promise<void> {
    const missing = (login: LoginSide): number => this.#options.min[login] - this.sizeOf(login) - this.#opening[login]
    const opened = LOGINS.flatMap((login) =>
      Array.from({ length: Math.max(0, missing(login)) }, () => this.#open(login)),
    )
    await Promise.all(opened)
  }

  destroyAll(): void {
    for (const { connection } of this.#slots.all) connection.destroy()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#stopTicking?.()
    this.#stopTrimming()
    this.#workPriority?.stop()
    this.failWaiters()
    await Promise.all(this.#slots.all.map(({ connection }) => connection.close()))
  }

  /** What was cut once does not share a connection again. */
  #kindOf({ kind, text }: PoolRequest, wasCut = false): Kind {
    if (kind === 'row') {
      const isAlone =
        wasCut || this.#timings.isRetried(text) || this.#timings.isKnownSlow(text, this.#options.clock.now())
      return isAlone ? 'write' : 'row'
    }
    if (kind !== 'read' || (!wasCut && this.#timings.isKnownFast(text))) return kind
    return this.#timings.isKnownSlow(text, this.#options.clock.now()) ? 'slow' : 'probe'
  }

  #waiting(): Waiter[] {
    return LANES.flatMap(({ side, kind }) => this.#queues[side][kind]).filter(isWaiting)
  }

  #place(waiter: Waiter): void {
    const { kind, request } = waiter
    const { clock, acquireTimeoutMs } = this.#options
    const queue = this.#queues[request.side][kind]
    if (this.#isClosed) this.#finish(waiter, databaseUnavailable())
    else if (queue.some(isWaiting) || !this.#startNow(waiter)) {
      waiter.deadline ||= clock.now() + acquireTimeoutMs
      queue.push(waiter)
      this.#grow(request.side, kind)
      this.#stopTicking ??= clock.every(TICK_MS, () => this.#tick())
    }
  }

  #startNow(waiter: Waiter): boolean {
    const { kind, request } = waiter
    if (kind === 'probe' && this.#probing.has(request.text)) return false
    const share = this.#reserves.admit(request.side, kind, this.#busy)
    const slot = this.#slots.find(kind, request.side, share !== undefined)
    const counted = slot?.work?.share ?? share
    if (slot && counted) this.#start(waiter, slot, counted)
    return slot !== undefined && counted !== undefined
  }

  #start(waiter: Waiter, slot: ConnectionSlot, share: Share): void {
    const { request, kind } = waiter
    if (!slot.work) {
      slot.work = { kind, share }
      this.#busy[share]++
      this.#workPriority?.began(slot.connection, kind)
    }
    if (slot.load === 0) slot.since = this.#options.clock.now()
    slot.load++
    if (kind === 'probe') this.#probing.add(request.text)
    const limitMs = limitOf(kind, share)
    const isLimited = limitMs < request.timeoutMs
    const isRow = kind === 'row'
    const done: Done = (error, flight) => {
      slot.load--
      const tookMs = this.#slots.countAnswer(slot, kind)
      const isCut = isLimited && isCanceled(error) && !isCanceledByRequest(error)
      if (isConnectionError(error)) this.#dropResting()
      this.#onDone(waiter, isCut || (isRow && isLockTimeout(error)), tookMs, error, flight)
      if (!flight) this.#onRoom(slot) // for a flight the connection says so
    }
    const timeoutMs = Math.min(limitMs, request.timeoutMs)
    const flight = request.start(slot.connection, timeoutMs, done, isRow ? SHARED_LOCK_MS : undefined)
    waiter.slot = slot
    waiter.flight = flight
  }

  #onDone(waiter: Waiter, isCut: boolean, tookMs: number, error: PgError | AppError | null, flight?: Flight): void {
    const { kind, request } = waiter
    waiter.slot = undefined
    waiter.flight = undefined
    if (kind === 'probe') {
      this.#probing.delete(request.text)
      if (!error) this.#timings.inTime(request.text)
    }
    // What shared a connection may have been cut because the machine is busy: its second try shows it.
    if (isCut ? kind === 'probe' : waiter.wasCut && kind === 'write' && tookMs > READ_LIMIT_MS) {
      this.#timings.tooLong(request.text, this.#options.clock.now())
    }
    if (!isCut || waiter.isLeft) this.#finish(waiter, error, flight)
    else {
      if (kind === 'row') this.#timings.retry(request.text)
      waiter.wasCut = true
      waiter.kind = AFTER_CUT[kind]
      this.#place(waiter)
    }
  }

  /** What waits never runs; what may take long is cancelled; what has a limit ends by itself, and a write is told how. */
  #leave(waiter: Waiter): void {
    waiter.isLeft = true
    const { kind, slot, flight } = waiter
    if (slot && kind === 'row') return
    const isLimited = kind === 'read' || kind === 'probe'
    if (slot && flight && !isLimited) void slot.connection.cancel(flight)
    else this.#finish(waiter, new AppError('request_timeout', 'request was aborted'))
  }

  #finish(waiter: Waiter, error: PgError | AppError | null, flight?: Flight): void {
    if (waiter.isOver) return
    waiter.isOver = true
    if (waiter.wasCut && waiter.request.kind === 'row') this.#timings.endRetry(waiter.request.text)
    waiter.request.onDone(error, flight)
  }

  #onRoom(slot: ConnectionSlot): void {
    if (slot.work && slot.load === 0 && slot.connection.isIdle) this.#rest(slot)
    if (this.#stopTicking) this.#serve()
  }

  #rest(slot: ConnectionSlot): void {
    if (slot.work) {
      this.#busy[slot.work.share]--
      this.#workPriority?.ended(slot.connection)
    }
    slot.work = undefined
    slot.restsSince = this.#options.clock.now()
  }

  /** Reads first, which can share connections; then each other kind in turn. */
  #serve(): void {
    for (const side of SIDES) {
      while (this.#serveNext(side, 'read'));
      if (this.#queues[side].read.length > 0) this.#grow(side, 'read')
    }
    if (!ALONE.some(({ side, kind }) => this.#queues[side][kind].length > 0)) return
    for (let tried = 0; tried < ALONE.length; tried++) {
      const { side, kind } = ALONE[this.#turn] as Lane
      this.#turn = (this.#turn + 1) % ALONE.length
      if (this.#serveNext(side, kind)) tried = -1
    }
    for (const { side, kind } of ALONE) if (this.#queues[side][kind].length > 0) this.#grow(side, kind)
  }

  /** Whether a waiter left the queue: it was started, was over, or is known by now to be of another kind. */
  #serveNext(side: Side, kind: Kind): boolean {
    const queue = this.#queues[side][kind]
    const isNext = ({ isOver, request }: Waiter): boolean => isOver || !this.#probing.has(request.text)
    const at = kind === 'probe' ? queue.findIndex(isNext) : 0
    const next = queue[at]
    if (!next) return false
    const newKind =
      kind === 'read' || kind === 'probe' || kind === 'row' ? this.#kindOf(next.request, next.wasCut) : kind
    const isMisplaced = newKind !== kind
    if (!next.isOver && !isMisplaced && !this.#startNow(next)) return false
    if (at === 0) queue.shift()
    else queue.splice(at, 1)
    if (!next.isOver && isMisplaced) {
      next.kind = newKind
      this.#place(next)
    }
    return true
  }

  /** Opens a connection for work that would be admitted, or makes room for one. */
  #grow(side: Side, kind: Kind): void {
    const { max, clock } = this.#options
    const login = loginOf(side)
    const forReads = (slot: ConnectionSlot): boolean => slot.login === login && (slot.work?.kind ?? 'read') === 'read'
    const isEnough =
      kind === 'read'
        ? this.#slots.all.filter(forReads).length + this.#opening[login] >= this.#slots.crowd
        : this.#opening[login] >= this.#queues[side][kind].length || this.#slots.findResting(side)
    if (isEnough || this.#isClosed) return
    // What is on its way counts as taken.
    const opening = LOGINS.reduce((sum, each) => sum + this.#opening[each], 0)
    if (!this.#reserves.admit(side, kind, { ...this.#busy, long: this.#busy.long + opening })) return
    if (this.#slots.all.length + opening < max) {
      this.#open(login).catch(() => {}) // reported through onOpenFailed
      return
    }
    const others = this.#slots.all.filter((slot) => slot.login !== login)
    const resting = others.filter(({ work }) => !work)
    const isClosing = resting.some(({ connection }) => !connection.isIdle)
    const rested = resting.find(({ restsSince }) => restsSince <= clock.now() - REBALANCE_IDLE_MS)
    if (rested && others.length > 1 && !isClosing) void rested.connection.close()
  }

  async #open(login: LoginSide): Promise<void> {
    const { open, onOpenFailed } = this.#options
    this.#opening[login]++
    let slot: ConnectionSlot | undefined
    try {
      const connection = await open(login, {
        onRoom: () => slot && this.#onRoom(slot),
        onClosed: () => slot && this.#onClosed(slot),
      })
      if (this.#isClosed) return void connection.close()
      slot = this.#slots.add(login, connection)
    } catch (error) {
      onOpenFailed(login, error as Error)
      throw error
    } finally {
      this.#opening[login]--
    }
    this.#serve()
  }

  /**
   * A connection went without a word of PostgreSQL, as when a host, a proxy or the network fails. Those that rest have not
   * noticed, and each would lose another try of the same request.
   */
  #dropResting(): void {
    for (const { work, connection } of this.#slots.all) if (!work) connection.destroy()
  }

  #onClosed(slot: ConnectionSlot): void {
    this.#rest(slot)
    this.#slots.remove(slot)
    if (this.#stopTicking) this.#serve()
  }

  #tick(): void {
    const now = this.#options.clock.now()
    for (const waiter of this.#waiting()) {
      if (waiter.deadline <= now) this.#finish(waiter, databaseUnavailable())
    }
    this.#serve()
    if (this.#waiting().length > 0) return
    this.#stopTicking?.()
    this.#stopTicking = undefined
  }

  #trim(): void {
    const before = this.#options.clock.now() - IDLE_CLOSE_MS
    for (const login of LOGINS) {
      const rested = this.#slots.of(login).filter(({ work, restsSince }) => !work && restsSince <= before)
      const spare = Math.max(0, this.sizeOf(login) - this.#options.min[login])
      for (const { connection } of rested.slice(0, spare)) void connection.close()
    }
  }
}

function limitOf(kind: Kind, share: Share): number {
  if (kind === 'read' || kind === 'probe') return READ_LIMIT_MS
  return kind === 'row' || (kind === 'write' && share === 'short') ? SHORT_WRITE_LIMIT_MS : Number.POSITIVE_INFINITY
}
