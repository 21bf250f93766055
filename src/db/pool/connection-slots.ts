import type { PooledConnection } from './request.ts'
import { type Kind, type LoginSide, loginOf, type Share, type Side } from './reserves.ts'
import {
  ANSWERS_AVERAGED,
  LONG_WRITE_MS,
  MOSTLY,
  PIPELINE_DEPTH,
  PIPELINE_SPREAD,
  ROW_DEPTH,
  SHORT_READ_MS,
  SPREAD_FOR_MS,
  USUAL_WRITE_MS,
} from './tuning.ts'

/** A connection as the scheduler sees it. */
export type ConnectionSlot = {
  readonly login: LoginSide
  readonly connection: PooledConnection
  /** What it is at work on, and what it counts as; undefined while it rests. */
  work: { readonly kind: Kind; readonly share: Share } | undefined
  /** Requests on it. */
  load: number
  restsSince: number
  /** When it began with what is at work now. */
  since: number
}

export type SlotOptions = {
  /** Connections of one side that reads are put on before they wait. */
  crowd: number
  /** Usual writes of callers at work at the same time, on each login. */
  writers: number
  /** PostgreSQL is on the machine of this process. */
  isNearby: boolean
  now(): number
  /** Reads are on fewer connections than they should be. */
  onFewReaders(side: Side): void
}

/** The connections of a scheduler, and which of them a request of a kind goes to. */
export class ConnectionSlots {
  readonly #options: SlotOptions
  #all: ConnectionSlot[] = []
  /** Milliseconds between two answers of a busy shared connection, as a moving average. */
  #readMs = 0
  /** Of small writes the share that took long, also an average: nearly all do when commits wait for the disk. */
  #longWrites = 0
  /** Until when small writes are spread, because they wait for the disk. */
  #spreadUntil = 0

  constructor(options: SlotOptions) {
    this.#options = options
  }

  get all(): readonly ConnectionSlot[] {
    return this.#all
  }

  add(login: LoginSide, connection: PooledConnection): ConnectionSlot {
    const slot: ConnectionSlot = {
      login,
      connection,
      work: undefined,
      load: 0,
      restsSince: this.#options.now(),
      since: 0,
    }
    this.#all.push(slot)
    return slot
  }

  remove(slot: ConnectionSlot): void {
    this.#all = this.#all.filter((known) => known !== slot)
  }

  of(login: LoginSide): ConnectionSlot[] {
    return this.#all.filter((slot) => slot.login === login)
  }

  /** Where the request can start now. `mayTake`: a connection that rests, too. */
  find(kind: Kind, side: Side, mayTake: boolean): ConnectionSlot | undefined {
    if (kind === 'read') return this.#findReader(side, mayTake)
    const isFree = mayTake && !this.#isCrowded(kind, side)
    return (isFree ? this.findResting(side) : undefined) ?? (kind === 'row' ? this.#findWriter(side) : undefined)
  }

  findResting(side: Side): ConnectionSlot | undefined {
    const login = loginOf(side)
    return this.#all.find((slot) => slot.login === login && !slot.work && slot.connection.isIdle)
  }

  /** Short reads keep this process busy: on its own machine, PostgreSQL then has one core fewer. */
  get crowd(): number {
    const { crowd, isNearby } = this.#options
    return isNearby && this.#readMs < SHORT_READ_MS ? Math.max(1, crowd - 1) : crowd
  }

  /** An answer came; what is behind it begins. Returns how long it took. */
  countAnswer(slot: ConnectionSlot, kind: Kind): number {
    const now = this.#options.now()
    const tookMs = now - slot.since
    if (kind === 'read') this.#readMs += (tookMs - this.#readMs) / ANSWERS_AVERAGED
    if (kind === 'row' && now >= this.#spreadUntil) this.#countWrite(now, tookMs)
    slot.since = now
    return tookMs
  }

  /** The least busy of as few connections as suffice. */
  #findReader(side: Side, mayTake: boolean): ConnectionSlot | undefined {
    let reads = 0
    for (const slot of this.#all) if (slot.login === side && slot.work?.kind === 'read') reads += slot.load
    const enough = Math.min(this.crowd, Math.ceil((reads + 1) / PIPELINE_SPREAD))
    let best: ConnectionSlot | undefined
    let seen = 0
    for (const slot of this.#all) {
      if (slot.login !== side || (slot.work ? slot.work.kind !== 'read' : !mayTake || !slot.connection.isIdle)) continue
      if (slot.load < (best?.load ?? PIPELINE_DEPTH)) best = slot
      if (++seen === enough) break
    }
    if (best && seen < enough) this.#options.onFewReaders(side)
    return best
  }

  /** The least busy connection that small writes are on, and that answers as quickly as usual. */
  #findWriter(side: Side): ConnectionSlot | undefined {
    const young = this.#options.now() - USUAL_WRITE_MS
    let best: ConnectionSlot | undefined
    for (const slot of this.#all) {
      if (slot.login !== side || slot.work?.kind !== 'row' || slot.since <= young) continue
      if (slot.load < (best?.load ?? ROW_DEPTH)) best = slot
    }
    return best
  }

  /**
   * Callers' writes wait for each other; the server's own for none of them. Writes that take longer than usual, such as those
   * that wait for a lock, do not count.
   */
  #isCrowded(kind: Kind, side: Side): boolean {
    if (side === 'own' || (kind !== 'write' && kind !== 'row')) return false
    const [login, young] = [loginOf(side), this.#options.now() - USUAL_WRITE_MS]
    let count = 0
    for (const { work, since, login: other } of this.#all) {
      const isWrite = work?.kind === 'write' || work?.kind === 'row'
      if (other === login && isWrite && work.share !== 'own' && since > young) count++
    }
    return count >= (kind === 'row' ? this.#rowWriters : this.#options.writers)
  }

  /**
   * Connections that small writes are on before they share: one for each core, because more backends take turns on them. Those
   * that wait for the disk need no core, and more of them are flushed together.
   */
  get #rowWriters(): number {
    const { crowd, writers, isNearby, now } = this.#options
    return isNearby && now() >= this.#spreadUntil ? Math.min(crowd, writers) : writers
  }

  #countWrite(now: number, tookMs: number): void {
    this.#longWrites += ((tookMs > LONG_WRITE_MS ? 1 : 0) - this.#longWrites) / ANSWERS_AVERAGED
    if (this.#longWrites < MOSTLY) return
    this.#spreadUntil = now + SPREAD_FOR_MS
    this.#longWrites = 0
  }
}
