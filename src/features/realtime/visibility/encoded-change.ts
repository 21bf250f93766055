import { type Change, isBefore, type Position } from '../../../db/changes/log.ts'
import type { Relayed } from '../../../db/db.ts'

/** Writes a change in the format of one transport. */
export type Encode = (change: EncodedChange) => Buffer

/** One change as it is sent to all that see the same of it; the bytes of each format are made once. */
export class EncodedChange {
  readonly position: Position
  readonly action: Change['action']
  readonly table: string
  /** JSON as PostgreSQL wrote it. */
  readonly record: Relayed
  readonly #bytes = new Map<Encode, Buffer>()

  constructor(position: Position, action: Change['action'], table: string, record: Relayed) {
    this.position = position
    this.action = action
    this.table = table
    this.record = record
  }

  as(encode: Encode): Buffer {
    return once(this.#bytes, encode, () => encode(this))
  }
}

/** Changes in the order of the log, as one buffer for all that are sent the same in the same format. */
export class EncodedChanges {
  readonly list: readonly EncodedChange[]
  readonly #bytes = new Map<Encode, Buffer>()

  constructor(list: readonly EncodedChange[]) {
    this.list = list
  }

  as(encode: Encode): Buffer {
    return once(this.#bytes, encode, () => Buffer.concat(this.list.map((change) => change.as(encode))))
  }

  after(position: Position): EncodedChanges {
    return new EncodedChanges(this.list.filter((change) => isBefore(position, change.position)))
  }
}

/** A buffer that consists of the record between two texts. */
export const around = (record: Relayed, head: string, tail: string): Buffer =>
  typeof record === 'string'
    ? Buffer.from(`${head}${record}${tail}`)
    : Buffer.concat([Buffer.from(head), record, Buffer.from(tail)])

function once<K, V>(made: Map<K, V>, key: K, make: () => V): V {
  const known = made.get(key) ?? make()
  made.set(key, known)
  return known
}
