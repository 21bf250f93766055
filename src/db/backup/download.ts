import { isUuid } from '../../core/uuid.ts'
import { listedBlobs } from './prune.ts'
import { FIRST_FOLDER } from './stored/files.ts'
import type { BackupDetails } from './stored/records.ts'
import type { Seals } from './stored/seal.ts'
import { StoredBackup } from './stored/stored-backup.ts'
import type { BackupTarget } from './target/target.ts'

const BLOCK = 512

/** A backup and its files as one tar, sealed as they are: unpacked into a folder it is a target to restore from. */
export async function* tarOfBackup(target: BackupTarget, seals: Seals, backup: BackupDetails): AsyncGenerator<Buffer> {
  for await (const { name, bytes } of target.list(`backups/${backup.id}/`)) yield* entry(target, name, bytes)
  if (backup.files.kind === 'copied') {
    const wanted = new Set<string>()
    for await (const id of listedBlobs(new StoredBackup(backup, target, seals))) if (isUuid(id)) wanted.add(id)
    for await (const { name, bytes } of target.list(`${backup.files.folder ?? FIRST_FOLDER}/`)) {
      if (wanted.has(name.slice(name.lastIndexOf('/') + 1))) yield* entry(target, name, bytes)
    }
  }
  yield Buffer.alloc(2 * BLOCK)
}

async function* entry(target: BackupTarget, name: string, bytes: number): AsyncGenerator<Buffer> {
  const stored = await target.get(name)
  // `begun` of a backup that ends just now.
  if (!stored) return
  yield header(name, bytes)
  let left = bytes
  for await (const part of stored) {
    left -= part.length
    if (left < 0) break
    yield part
  }
  if (left !== 0) throw new Error(`${name} changed while it was read`)
  const padding = (BLOCK - (bytes % BLOCK)) % BLOCK
  if (padding > 0) yield Buffer.alloc(padding)
}

/** A ustar header; sizes of 8 GiB and more are written in base 256, as GNU tar does. */
function header(name: string, size: number): Buffer {
  const head = Buffer.alloc(BLOCK)
  head.write(name, 0, 100, 'utf8')
  head.write('0000600\x000000000\x000000000\x00', 100)
  if (size < 8 ** 11) head.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  else {
    head[124] = 0x80
    head.writeBigUInt64BE(BigInt(size), 128)
  }
  head.write('00000000000\0', 136)
  head.write('        0', 148)
  head.write('ustar\x0000', 257)
  const sum = head.reduce((total, byte) => total + byte, 0)
  head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return head
}
