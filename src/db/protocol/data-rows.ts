import type { OnRow, Relayed } from '../db.ts'
import { READ_BYTES } from './whole-messages.ts'

/** PostgreSQL has no wider rows. */
const MAX_CELLS = 1664

/** Reads DataRow messages (protocol 3.0, "Message Formats") without making a string of each cell. */
export function rowReader(onRow: OnRow): (messages: Buffer) => void {
  const starts = new Int32Array(MAX_CELLS)
  const ends = new Int32Array(MAX_CELLS)
  return (bytes) => {
    const row = { bytes, count: 0, starts, ends }
    for (let at = 0; at < bytes.length; ) {
      const next = at + 1 + bytes.readUInt32BE(at + 1)
      row.count = bytes.readUInt16BE(at + 5)
      at += 7
      for (let i = 0; i < row.count; i++) {
        const length = bytes.readInt32BE(at)
        at += 4
        starts[i] = at
        ends[i] = at + length
        if (length > 0) at += length
      }
      onRow(row)
      at = next
    }
  }
}

/** As bytes if it is long and bytes are requested: longer than a read, its message has a buffer of its own. */
function cellAt(bytes: Buffer, at: number, length: number, asBytes: boolean): Relayed | null {
  if (length < 0) return null
  return asBytes && length > READ_BYTES ? bytes.subarray(at, at + length) : bytes.toString('utf8', at, at + length)
}

/** The first cell of the DataRow whose number of cells is at `at`. */
export const firstCell = (bytes: Buffer, at: number, asBytes: boolean): Relayed | null =>
  bytes.readUInt16BE(at) === 0 ? null : cellAt(bytes, at + 6, bytes.readInt32BE(at + 2), asBytes)

/** All of them. */
export function cellsOf(bytes: Buffer, start: number, asBytes: boolean): (Relayed | null)[] {
  let at = start + 2
  const cells = new Array<Relayed | null>(bytes.readUInt16BE(start))
  for (let i = 0; i < cells.length; i++) {
    const length = bytes.readInt32BE(at)
    cells[i] = cellAt(bytes, at + 4, length, asBytes)
    at += 4 + Math.max(0, length)
  }
  return cells
}
