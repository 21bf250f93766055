import { ON_BEHALF } from '../../core/identity.ts'
import type { Db } from '../db.ts'
import { type Position, pointOf } from './position.ts'
import { type CommittedRow, committedNow } from './sql.ts'

/** What was committed at a moment. */
export type LogMoment = {
  includes(position: Position): boolean
  /** Whether everything that it includes is at or before this position. */
  isOver(position: Position): boolean
}

/** All who ask while PostgreSQL is being asked share the next answer. */
export class Moments {
  readonly #db: Db
  #last: Promise<unknown> = Promise.resolve()
  #next: Promise<LogMoment> | undefined

  constructor(db: Db) {
    this.#db = db
  }

  now(): Promise<LogMoment> {
    const next =
      this.#next ??
      this.#last.then(() => {
        const read = this.#read()
        this.#last = read.catch(() => undefined)
        this.#next = undefined
        return read
      })
    this.#next = next
    return next
  }

  async #read(): Promise<LogMoment> {
    const [row] = await this.#db.rows<CommittedRow>(ON_BEHALF, committedNow, { kind: 'read' })
    const { xmin, xmax, running, last } = row as CommittedRow
    const [from, to, lastId] = [BigInt(xmin), BigInt(xmax), BigInt(last)]
    const isRunning = new Set(running)
    return {
      includes: (position) => {
        const xid = pointOf(position)?.xid ?? xmax
        return BigInt(xid) < from || (BigInt(xid) < to && !isRunning.has(xid))
      },
      isOver: (position) => BigInt(pointOf(position)?.id ?? 0) >= lastId,
    }
  }
}
