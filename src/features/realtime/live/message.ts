import type { Position } from '../../../db/changes/position.ts'
import type { Relayed } from '../../../db/db.ts'
import type { LiveChange } from './held.ts'

const [LINE_FEED, RETURN, SPACE] = [10, 13, 32]
const COMMA = Buffer.from(',')

/** A column of type json is passed on as it was written, with its line breaks, which a line of an event stream cannot hold. */
function onOneLine(text: Relayed): Buffer {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text
  if (!bytes.includes(LINE_FEED) && !bytes.includes(RETURN)) return bytes
  return Buffer.from(bytes.map((byte) => (byte === LINE_FEED || byte === RETURN ? SPACE : byte)))
}

/** What all members of a live list are sent, made once. */
export class LiveMessage {
  readonly type: 'rows' | 'diff'
  readonly position: Position
  /** JSON of the rows, or of the changes. */
  readonly parts: readonly Relayed[]
  /** JSON of the keys of the rows; undefined of changes, and of rows without. */
  readonly #keys: readonly string[] | undefined
  #fields: Buffer | undefined

  private constructor(
    type: LiveMessage['type'],
    position: Position,
    parts: readonly Relayed[],
    keys?: readonly string[],
  ) {
    this.type = type
    this.position = position
    this.parts = parts
    this.#keys = keys
  }

  static rows(position: Position, rows: readonly Relayed[], keys?: readonly string[]): LiveMessage {
    return new LiveMessage('rows', position, rows, keys)
  }

  static diff(position: Position, changes: readonly LiveChange[]): LiveMessage {
    const parts = changes.map((change): Relayed => {
      if ('gone' in change) return `{"key":${change.k},"gone":true}`
      const head = Buffer.from(`{"key":${change.k},"at":${change.at},"row":`)
      return Buffer.concat([head, Buffer.from(change.r), Buffer.from('}')])
    })
    return new LiveMessage('diff', position, parts)
  }

  /** As `fields`, with the keys of rows, for clients that do not know which columns these are. */
  get fieldsAndKeys(): Buffer {
    return this.#keys ? Buffer.concat([Buffer.from(`"keys":[${this.#keys.join()}],`), this.fields]) : this.fields
  }

  /** The members of the message after its names, as JSON without the brace that opens it. */
  get fields(): Buffer {
    if (this.#fields === undefined) {
      const name = this.type === 'rows' ? 'items' : 'changes'
      const parts = this.parts.flatMap((part, i) => (i === 0 ? [onOneLine(part)] : [COMMA, onOneLine(part)]))
      const head = Buffer.from(`"position":"${this.position}","${name}":[`)
      this.#fields = Buffer.concat([head, ...parts, Buffer.from(']}')])
    }
    return this.#fields
  }
}

/** Who is sent what becomes of a live list. */
export type LiveListener = {
  send(message: LiveMessage): void
  /** It is read again at most this often, in milliseconds, because it takes long. */
  slow(interval: number): void
  /** There is nothing more to come. */
  fail(error: Error): void
}
