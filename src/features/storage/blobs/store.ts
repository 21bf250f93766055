import type { Readable } from 'node:stream'
import { AppError } from '../../../core/errors.ts'
import type { ByteRange } from '../../../http/files/conditions.ts'
import type { ByteSource } from '../../../http/files/source.ts'

/**
 * Where bytes are kept, under names the server made (UUIDs), each written once. The database decides which of them
 * mean something.
 */
export interface Store {
  /** Before the first write. */
  start?(): void
  /** Resolves when the bytes are whole and durable under `id`; when it rejects, nothing is left of them. */
  write(id: string, source: Readable): Promise<void>
  /** Undefined: there is no such blob. */
  read(id: string, range: ByteRange): Promise<ByteSource | undefined>
  /** Removing what is not there is fine. */
  remove(id: string): Promise<void>
  /** Everything that was written and not removed. */
  list(): AsyncIterable<StoredBlob>
  /** Removes what writers that died left half written; resolves to how many. */
  removeUnfinished(): Promise<number>
  /** How often that is worth a look. */
  readonly unfinishedSweepMs: number
  /** Writes at a time that fit in memory. */
  readonly maxWrites: number
  stop(): Promise<void>
}

export type StoredBlob = { id: string; modifiedAt: number }

/** Full disks, quotas and read-only file systems, as the operating system names them. */
const FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

export function storeFailure(cause: unknown): unknown {
  const code = (cause as { code?: unknown } | null)?.code
  return typeof code === 'string' && FULL.has(code)
    ? new AppError('insufficient_storage', 'insufficient storage', { cause })
    : cause
}
