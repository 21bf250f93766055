import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import type { BackupDetails } from '../stored/records.ts'
import type { Seals } from '../stored/seal.ts'
import { parseLsn, readWal, segmentName } from '../stored/wal.ts'
import type { BackupTarget } from '../target/target.ts'

/** Where the archive goes on from a backup: the first segment that the backup has not. */
const continuation = ({ to, segmentSize }: BackupDetails): bigint => {
  const size = BigInt(segmentSize)
  const end = parseLsn(to ?? '0/0')
  // PostgreSQL switches to a new segment at the end of a backup.
  return end % size === 0n ? end : (end / size + 1n) * size
}

/** Opens every seal of the log that follows a backup; resolves to where it ends. */
export async function checkArchive(target: BackupTarget, seals: Seals, backup: BackupDetails): Promise<bigint> {
  let end = continuation(backup)
  if (backup.archive === null) return end
  for await (const { at, bytes } of readWal(target, seals, backup.archive, end)) end = at + BigInt(bytes.length)
  return end
}

/** Writes the log that follows a backup into the unpacked cluster, as segments of PostgreSQL. */
export async function unpackArchive(
  target: BackupTarget,
  seals: Seals,
  backup: BackupDetails,
  clusterDir: string,
): Promise<void> {
  if (backup.archive === null) return
  const { segmentSize, timeline } = backup
  const size = BigInt(segmentSize)
  let file: { name: string; handle: FileHandle } | undefined
  try {
    for await (const piece of readWal(target, seals, backup.archive, continuation(backup))) {
      for (let { at, bytes } = piece; bytes.length > 0; ) {
        const name = segmentName(timeline, at, segmentSize)
        if (file?.name !== name) {
          await file?.handle.close()
          file = { name, handle: await createSegment(join(clusterDir, 'pg_wal', name), segmentSize) }
        }
        const offset = Number(at % size)
        const part = bytes.subarray(0, segmentSize - offset)
        await file.handle.write(part, 0, part.length, offset)
        at += BigInt(part.length)
        bytes = bytes.subarray(part.length)
      }
    }
  } finally {
    await file?.handle.close()
  }
}

async function createSegment(path: string, size: number): Promise<FileHandle> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0)
  const handle = await open(path, flags, 0o600)
  // The rest of the last segment is zeros, where recovery ends.
  await handle.truncate(size)
  return handle
}
