import type { BackupTarget } from '../target/target.ts'
import { SealError, type Seals } from './seal.ts'

/** A position in the log. */
export const parseLsn = (text: string): bigint => {
  const [high = '0', low = '0'] = text.split('/')
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)
}
export const formatLsn = (lsn: bigint): string =>
  `${(lsn >> 32n).toString(16).toUpperCase()}/${(lsn & 0xffffffffn).toString(16).toUpperCase()}`

const hex = (n: bigint, digits: number): string => n.toString(16).padStart(digits, '0')

/** The file of PostgreSQL that holds a position. */
export function segmentName(timeline: number, lsn: bigint, segmentSize: number): string {
  const perLog = 2n ** 32n / BigInt(segmentSize)
  const number = lsn / BigInt(segmentSize)
  return [BigInt(timeline), number / perLog, number % perLog].map((part) => hex(part, 8).toUpperCase()).join('')
}

const folder = (archive: string): string => `wal/${archive}/`
const PIECE = /^wal\/([a-z0-9-]{1,40})\/([0-9a-f]{16})-[0-9a-f]{6}$/

/** `mark` tells pieces apart that begin at the same position, because an archive was interrupted. */
export const pieceName = (archive: string, start: bigint, mark: string): string =>
  `${folder(archive)}${hex(start, 16)}-${mark}`

export type WalPiece = { name: string; start: bigint; bytes: number }

/** Pieces of the log in the order of their beginnings. */
export async function listPieces(target: BackupTarget, archive: string): Promise<WalPiece[]> {
  const pieces: WalPiece[] = []
  for await (const { name, bytes } of target.list(folder(archive))) {
    const start = PIECE.exec(name)?.[2]
    if (start !== undefined) pieces.push({ name, start: BigInt(`0x${start}`), bytes })
  }
  return pieces.sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0))
}

export type WalBytes = { at: bigint; bytes: Buffer }

/**
 * The log of an archive from a position on, without gaps; ends where the archive does. A piece that does not carry our
 * seal is an error, unless it is the last one: its end may be half written.
 */
export async function* readWal(
  target: BackupTarget,
  seals: Seals,
  archive: string,
  from: bigint,
): AsyncGenerator<WalBytes> {
  let position = from
  // An archive that is under way puts pieces together: what was listed may be gone, and its bytes in another piece.
  for (let missing = ''; ; ) {
    const pieces = await listPieces(target, archive)
    // What begins at or before the position, and what follows.
    const last = pieces.findLastIndex(({ start }) => start <= position)
    if (last < 0) return
    let gone = ''
    for (const piece of pieces.slice(firstNeeded(pieces, last))) {
      if (piece.start > position) {
        throw new SealError(`the archive has a gap between ${formatLsn(position)} and ${formatLsn(piece.start)}`)
      }
      const stored = await target.get(piece.name)
      if (!stored) {
        gone = piece.name
        break
      }
      let at = piece.start
      for await (const chunk of seals.open(piece.name, stored, { openEnded: true })) {
        const end = at + BigInt(chunk.length)
        if (end > position) {
          yield { at: position, bytes: chunk.subarray(Number(position - at > 0n ? position - at : 0n)) }
          position = end
        }
        at = end
      }
    }
    if (gone === '') return
    if (gone === missing) throw new SealError(`${gone} is missing in the backup target`)
    missing = gone
  }
}

/** A piece ends with its segment, so one that begins a segment earlier does not reach the position. */
function firstNeeded(pieces: readonly WalPiece[], last: number): number {
  let first = last
  while (first > 0 && (pieces[last]?.start ?? 0n) - (pieces[first - 1]?.start ?? 0n) < MOST_SEGMENT) first--
  return first
}

/** Largest segment that PostgreSQL can be built with. */
export const MOST_SEGMENT: bigint = 2n ** 30n

/** What an archive says about itself. */
export type ArchiveRecord = {
  archive: string
  system_id: string
  /** Whose it is; unknown in older ones. */
  server?: string
  timeline: number
  segment_size: number
  start: string
  created_at: string
}
export const archiveRecordName = (archive: string): string => `archives/${archive}`
