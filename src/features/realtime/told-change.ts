import type { Change, Position } from '../../db/changes/log.ts'
import type { Relayed } from '../../db/db.ts'
import type { Format } from './subscriber.ts'

/** One change as everybody who sees the same of it is told; the bytes of each format are made once. */
export class ToldChange {
  readonly position: Position
  readonly action: Change['action']
  readonly table: string
  /** JSON as PostgreSQL wrote it. */
  readonly record: Relayed
  readonly #made = new Map<Format, Buffer>()

  constructor(position: Position, action: Change['action'], table: string, record: Relayed) {
    this.position = position
    this.action = action
    this.table = table
    this.record = record
  }

  in(format: Format): Buffer {
    const known = this.#made.get(format)
    if (known) return known
    const bytes = format.change(this)
    this.#made.set(format, bytes)
    return bytes
  }
}

/** The record between these two, which hold the rest of what is told. */
export const around = (record: Relayed, head: string, tail: string): Buffer =>
  typeof record === 'string'
    ? Buffer.from(`${head}${record}${tail}`)
    : Buffer.concat([Buffer.from(head), record, Buffer.from(tail)])

type Told = { readonly told: ToldChange }

const joinedFrames = new WeakMap<readonly Told[], Map<Format, Buffer>>()
/** One buffer for all who are sent the same frames in the same format. */
export function joined(frames: readonly Told[], format: Format): Buffer {
  const known = joinedFrames.get(frames) ?? new Map<Format, Buffer>()
  const made = known.get(format)
  if (made) return made
  const [first] = frames
  const bytes =
    frames.length === 1 && first ? first.told.in(format) : Buffer.concat(frames.map(({ told }) => told.in(format)))
  joinedFrames.set(frames, known.set(format, bytes))
  return bytes
}
