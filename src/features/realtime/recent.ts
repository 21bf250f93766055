import type { Change, Position } from '../../db/changes/log.ts'

const MAX_CHANGES = 2_000
const MAX_BYTES = 4 * 1024 * 1024

export type Recent = {
  /** The log continues from here; what was before is not ours to tell. */
  restart(from: Position): void
  add(changes: readonly Change[]): void
  /** What came after a position; undefined when that is too long ago. */
  after(position: Position): readonly Change[] | undefined
  has(position: Position): boolean
}

/** The end of the log in memory: clients that come back within seconds cost the database no read. */
export function createRecent(): Recent {
  let start: Position = ''
  let changes: Change[] = []
  let bytes = 0
  const sizeOf = ({ record }: Change): number => 200 + (record?.length ?? 0)

  const indexAfter = (position: Position): number | undefined => {
    if (position === start) return 0
    const at = changes.findLastIndex((change) => change.position === position)
    return at === -1 ? undefined : at + 1
  }

  return {
    restart(from) {
      start = from
      changes = []
      bytes = 0
    },
    add(more) {
      changes.push(...more)
      for (const change of more) bytes += sizeOf(change)
      if (changes.length <= MAX_CHANGES * 1.5 && bytes <= MAX_BYTES * 1.5) return
      let cut = 0
      while (cut < changes.length && (changes.length - cut > MAX_CHANGES || bytes > MAX_BYTES)) {
        const oldest = changes[cut++]
        if (oldest) {
          bytes -= sizeOf(oldest)
          start = oldest.position
        }
      }
      changes = changes.slice(cut)
    },
    after(position) {
      const at = indexAfter(position)
      return at === undefined ? undefined : changes.slice(at)
    },
    has: (position) => indexAfter(position) !== undefined,
  }
}
