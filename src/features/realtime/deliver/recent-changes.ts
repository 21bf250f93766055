import type { Change } from '../../../db/changes/log.ts'
import type { Position } from '../../../db/changes/position.ts'

const MAX_CHANGES = 2_000
const MAX_BYTES = 4 * 1024 * 1024

const sizeOf = ({ record }: Change): number => 200 + (record?.length ?? 0)

/** The end of the log in memory: clients that come back within seconds cost the database no read. */
export class RecentChanges {
  #start: Position = ''
  #changes: Change[] = []
  #bytes = 0

  /** The log continues from here; earlier changes are of no use. */
  restart(from: Position): void {
    this.#start = from
    this.#changes = []
    this.#bytes = 0
  }

  add(more: readonly Change[]): void {
    this.#changes.push(...more)
    for (const change of more) this.#bytes += sizeOf(change)
    if (this.#changes.length <= MAX_CHANGES * 1.5 && this.#bytes <= MAX_BYTES * 1.5) return
    let cut = 0
    for (const change of this.#changes) {
      if (this.#changes.length - cut <= MAX_CHANGES && this.#bytes <= MAX_BYTES) break
      cut++
      this.#bytes -= sizeOf(change)
      this.#start = change.position
    }
    this.#changes = this.#changes.slice(cut)
  }

  /**
   * What came after a position, as far as it can be judged at once: a page is held as text, as rows and as bytes to send.
   * Undefined when that is too long ago.
   */
  after(position: Position): readonly Change[] | undefined {
    const start = this.#indexAfter(position)
    if (start === undefined) return undefined
    let end = start
    for (let bytes = 0; end < this.#changes.length && bytes < MAX_BYTES; end++) {
      const change = this.#changes[end]
      if (change) bytes += sizeOf(change)
    }
    return this.#changes.slice(start, end)
  }

  has(position: Position): boolean {
    return this.#indexAfter(position) !== undefined
  }

  #indexAfter(position: Position): number | undefined {
    if (position === this.#start) return 0
    const at = this.#changes.findLastIndex((change) => change.position === position)
    return at === -1 ? undefined : at + 1
  }
}
