import { getOrCreate } from '../../../core/get-or-create.ts'
import type { Change } from '../../../db/changes/log.ts'
import { isBefore, type Position } from '../../../db/changes/position.ts'
import type { Relayed } from '../../../db/db.ts'

/** Writes a change in the format of one transport. */
export type Encode = (change: EncodedChange) => Buffer

/** One change as it is sent to all that see the same of it. */
export type EncodedChange = {
  readonly position: Position
  /** Of its table, as interests name it. */
  readonly key: string
  readonly action: Change['action']
  readonly table: string
  /** JSON as PostgreSQL wrote it. */
  readonly record: Relayed
  /** Made once for each format. */
  readonly bytes: Map<Encode, Buffer>
}

/** Changes in the order of the log, as one buffer for all that are sent the same in the same format. */
export class EncodedChanges {
  readonly list: readonly EncodedChange[]
  readonly #bytes = new Map<Encode, Buffer>()

  constructor(list: readonly EncodedChange[]) {
    this.list = list
  }

  as(encode: Encode): Buffer {
    return getOrCreate(this.#bytes, encode, () => {
      const each = this.list.map((change) => getOrCreate(change.bytes, encode, () => encode(change)))
      const [first] = each
      return first && each.length === 1 ? first : Buffer.concat(each)
    })
  }

  after(position: Position): EncodedChanges {
    return this.only((change) => isBefore(position, change.position))
  }

  only(isWanted: (change: EncodedChange) => boolean): EncodedChanges {
    return new EncodedChanges(this.list.filter(isWanted))
  }
}

/** A buffer that consists of the record between two texts. */
export const around = (record: Relayed, head: string, tail: string): Buffer =>
  typeof record === 'string'
    ? Buffer.from(`${head}${record}${tail}`)
    : Buffer.concat([Buffer.from(head), record, Buffer.from(tail)])
