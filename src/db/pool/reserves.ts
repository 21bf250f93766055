/**
 * Who connections log in as: the server itself, the login that callers' requests have, or those of administrators, of which one
 * reads and writes all rows and the other reads them.
 */
export type LoginSide = 'own' | 'callers' | AdminSide
export type AdminSide = 'writers' | 'readers'

/**
 * Whose work. `behalf`: what callers cause and the server's login does, such as finding a file; it has queues of its own and
 * takes what callers may take.
 */
export type Side = LoginSide | 'behalf'

export const loginOf = (side: Side): LoginSide => (side === 'behalf' ? 'own' : side)

/**
 * `read`: short and repeatable; shares a connection with other reads.
 * `probe`: a read of unknown duration; alone on a connection, so that no flight waits for it.
 * `row`: a small write that runs no user code: short unless it waits for a lock, and undone when it is cut. When as many writes
 * are at work as the cores are good for, it shares a connection with others of its kind.
 * `write`: may wait for a lock, and happens once; alone.
 * `slow`: may take long; alone.
 */
export type Kind = 'read' | 'probe' | 'row' | 'write' | 'slow'

/**
 * What a connection at work counts as. `short` ends soon by its limit: probes, and writes on a connection of the reserve.
 * `long` does not: slow work and other writes.
 */
export type Share = 'own' | 'reads' | 'short' | 'long'

export type Busy = Readonly<Record<Share, number>>

/**
 * Who may take how many of `max_conns` connections. Each kind has a small reserve; what is beyond the reserves that are not
 * in use goes to the next that waits, whatever its kind.
 *
 * | max_conns | the server's own | callers' reads | first reads, and writes for 200 ms | left for everything, slow work too |
 * |---|---|---|---|---|
 * | 2     | 1 | – | – | 1 |
 * | 3     | 1 | 1 | – | 1 |
 * | 4–7   | 1 | 1 | 1 | 1–4 |
 * | 8–15  | 2 | 1 | 1 | 4–11 |
 * | 16–23 | 2 | 2 | 2 | 10–17 |
 * | 24–   | 3 | 2 | 4 | 15– |
 *
 * A commit waits for the disk, so when everything else is at long work two connections of each kind are too few for ordinary ones.
 */
export class Reserves {
  readonly #max: number
  readonly #own: number
  readonly #reads: number
  readonly #short: number

  constructor(max: number) {
    this.#max = max
    this.#own = max < 8 ? 1 : max < 24 ? 2 : 3
    this.#reads = max < 3 ? 0 : max < 16 ? 1 : 2
    this.#short = max < 4 ? 0 : max < 16 ? 1 : max < 24 ? 2 : 4
  }

  /** What the next connection would count as for this work; undefined when it has to wait. */
  admit(side: Side, kind: Kind, busy: Busy): Share | undefined {
    const free = this.#max - busy.own - busy.reads - busy.short - busy.long
    const own = Math.max(0, this.#own - busy.own)
    const reads = Math.max(0, this.#reads - busy.reads)
    const short = Math.max(0, this.#short - busy.short)
    const isUnreserved = free > own + reads + short
    if (side !== 'callers' && side !== 'behalf') {
      // Slow work of the server and its operator leaves one connection of the reserve to the rest.
      const isWithinOwn = kind !== 'slow' || busy.own < Math.max(1, this.#own - 1)
      return isUnreserved || (isWithinOwn && free > reads + short) ? 'own' : undefined
    }
    if (kind === 'read') return free > own + short ? 'reads' : undefined
    if (kind !== 'probe' && isUnreserved) return 'long'
    return kind !== 'slow' && free > own + reads ? 'short' : undefined
  }
}
