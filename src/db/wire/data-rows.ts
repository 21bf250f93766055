/** One row as PostgreSQL sent it: cell i is the bytes from `starts[i]` up to `ends[i]`, NULL where that is before its start. */
export type RawRow = {
  readonly bytes: Buffer
  readonly count: number
  readonly starts: Int32Array
  readonly ends: Int32Array
}

/** Called for each row, which is good until the call ends. */
export type OnRow = (row: RawRow) => void

const DATA_ROW = 0x44
/** PostgreSQL has no wider rows. */
const MAX_CELLS = 1664

const sizeAt = (bytes: Buffer, at: number): number => 1 + bytes.readUInt32BE(at + 1)

/** Parts whole messages into runs of rows and runs of what else there is, in their order. */
export function partRows(bytes: Buffer, rows: (bytes: Buffer) => void, others: (bytes: Buffer) => void): void {
  for (let at = 0; at < bytes.length; ) {
    const areRows = bytes[at] === DATA_ROW
    let end = at
    while (end < bytes.length && (bytes[end] === DATA_ROW) === areRows) end += sizeAt(bytes, end)
    const run = bytes.subarray(at, end)
    if (areRows) rows(run)
    else others(run)
    at = end
  }
}

/** Reads DataRow messages (protocol 3.0, "Message Formats") without making a string of each cell. */
export function rowReader(onRow: OnRow): (messages: Buffer) => void {
  const starts = new Int32Array(MAX_CELLS)
  const ends = new Int32Array(MAX_CELLS)
  return (bytes) => {
    const row = { bytes, count: 0, starts, ends }
    for (let at = 0; at < bytes.length; ) {
      const next = at + sizeAt(bytes, at)
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
