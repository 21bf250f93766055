import type { Identity } from '../../core/identity.ts'

/** A point in the WAL of the primary, as bytes from its beginning. */
export type Lsn = bigint

/** `16/B374D848` → bytes. */
export function lsnOf(text: string): Lsn {
  const [high = '0', low = '0'] = text.split('/')
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)
}

/** A page of the WAL begins with a header, in which no record ends: what stands in it ended with the page before. */
const PAGE = 8192n
const LARGEST_HEADER = 40n
export function endOfRecord(lsn: Lsn, pageSize: Lsn = PAGE): Lsn {
  const offset = lsn % PAGE
  return pageSize === PAGE && offset <= LARGEST_HEADER ? lsn - offset : lsn
}

/** `Svc-Position`, opaque to clients but for its order as text: timeline and point, hexadecimal. */
export const headerOf = (timeline: number, lsn: Lsn): string =>
  `${timeline.toString(16).padStart(8, '0')}-${lsn.toString(16).padStart(16, '0')}`

/** Undefined for any other text, and for a position of another timeline: what that had alone is gone. */
export function lsnOfHeader(text: string | undefined, timeline: number): Lsn | undefined {
  const [, on, at] = /^([0-9a-f]{1,8})-([0-9a-f]{1,16})$/.exec(text ?? '') ?? []
  if (on === undefined || at === undefined || Number.parseInt(on, 16) !== timeline) return undefined
  return BigInt(`0x${at}`)
}

/** Who a caller is to the memory of writers; undefined for those whose writes concern every reader. */
function writerKey(who: Identity): string | undefined {
  if (who.kind === 'user' || who.kind === 'mfa') return who.id
  if (who.kind === 'key') return who.userId ?? who.keyId
  return undefined
}

/** As a position no replica reaches it, so that its caller reads on the primary. */
export const FARTHEST: Lsn = (1n << 64n) - 1n

/**
 * What readers must find on a replica: each writer its own last write, and everybody what visitors, the server and the
 * operator wrote. Kept until every replica in use has it.
 */
export class WrittenPositions {
  readonly #writers = new Map<string, Lsn>()
  /** Of all writes of this process. */
  #last: Lsn = 0n
  /** What every reader needs. */
  #floor: Lsn = 0n
  /** How many writes had a position that is not known, and how many of them are before the last look at the primary. */
  #unknowns = 1
  #known = 0
  /** The last of those whose own caller does not know its position either. */
  #lost = 0

  get last(): Lsn {
    return this.#last
  }

  /** For tests and gauges. */
  get size(): number {
    return this.#writers.size
  }

  wrote(who: Identity, lsn: Lsn): void {
    if (lsn > this.#last) this.#last = lsn
    const writer = writerKey(who)
    if (writer !== undefined) this.#writers.set(writer, this.#last)
    else if (who.kind === 'anonymous') this.#floor = this.#last
  }

  /** A request that may have written in other names than the caller's. */
  finished(who: Identity): void {
    const writer = writerKey(who)
    if (writer !== undefined) this.#writers.set(writer, this.#last)
    else if (who.kind === 'anonymous') this.#floor = this.#last
    else this.#unknowns++
  }

  lost(): void {
    this.#lost = ++this.#unknowns
  }

  /** The primary is here. `unknowns`: when it was asked. */
  sampled(lsn: Lsn, unknowns: number): void {
    if (lsn > this.#last) this.#last = lsn
    if (unknowns <= this.#known) return
    this.#floor = this.#last
    this.#known = unknowns
  }

  get unknowns(): number {
    return this.#unknowns
  }

  /** Until the next look at the primary a position may be that of less than its caller wrote. */
  get isLost(): boolean {
    return this.#lost > this.#known
  }

  /** Another timeline: points of the one before mean nothing. */
  restart(): void {
    this.#writers.clear()
    this.#last = 0n
    this.#floor = 0n
    this.#unknowns++
  }

  needOf(who: Identity): Lsn {
    if (this.#unknowns > this.#known) return FARTHEST
    const writer = writerKey(who)
    const own = writer === undefined ? 0n : (this.#writers.get(writer) ?? 0n)
    return own > this.#floor ? own : this.#floor
  }

  /** Every replica in use has replayed up to here. */
  forget(replayed: Lsn): void {
    for (const [writer, lsn] of this.#writers) if (lsn <= replayed) this.#writers.delete(writer)
  }
}
