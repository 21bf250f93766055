import type { Readable } from 'node:stream'
import { AppError } from '../../../core/errors.ts'
import type { ByteRange } from '../../../http/files/conditions.ts'
import type { ByteSource } from '../../../http/files/source.ts'

/**
 * Keeps bytes under UUIDs, each written once. Rows in the database decide which of them are in use.
 */
export interface Store {
  /** Called before the first write. */
  start?(): void
  /** Resolves when the bytes are whole and durable under `id`; if it rejects, nothing is stored. */
  write(id: string, source: Readable): Promise<void>
  /** Undefined if there is no such blob. */
  read(id: string, range: ByteRange): Promise<ByteSource | undefined>
  /** Succeeds also if there is no such blob. */
  remove(id: string): Promise<void>
  /** All stored blobs. */
  list(): AsyncIterable<StoredBlob>
  /** Removes the partial writes of dead processes; resolves to their number. */
  removeUnfinished(): Promise<number>
  /** Interval of `removeUnfinished`. */
  readonly unfinishedSweepMs: number
  /** Parallel writes that fit in memory. */
  readonly maxWrites: number
  stop(): Promise<void>
}

export type Blob = { id: string; size: number; sha256: string }
export type StoredBlob = { id: string; modifiedAt: number }

/** Error codes for full disks, quotas and file size limits. */
const FULL = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

export function storeFailure(cause: unknown): unknown {
  const code = (cause as { code?: unknown } | null)?.code
  return typeof code === 'string' && FULL.has(code)
    ? new AppError('insufficient_storage', 'insufficient storage', { cause })
    : cause
}
