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
  /** Rejects if there is no room for further bytes; undefined if there is for sure. */
  takeRoom?(bytes: number): Promise<void> | undefined
  /** Rejects as a full disk does if so many bytes would not fit; nothing is set aside for them. */
  requireRoom?(bytes: number): Promise<void>
  /** Resolves when the bytes are whole and durable under `id`; if it rejects, nothing is stored. */
  write(id: string, source: Readable): Promise<void>
  /** Undefined if there is no such blob. */
  read(id: string, range: ByteRange): Promise<ByteSource | undefined>
  /** All bytes, for the server's own use; undefined if there is no such blob. */
  bytes(id: string): Promise<Readable | undefined>
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

/** Codes of full disks, quotas and file size limits, and what stores of the S3 kind (MinIO, Ceph) say. */
const FULL: ReadonlySet<unknown> = new Set([
  ...['ENOSPC', 'EDQUOT', 'EFBIG'],
  ...['XMinioStorageFull', 'XMinioAdminBucketQuotaExceeded', 'QuotaExceeded', 'InsufficientStorage'],
])

type Failure = { code?: unknown; name?: unknown; $metadata?: { httpStatusCode?: unknown } } | null

export function storeFailure(cause: unknown): unknown {
  const { code, name, $metadata } = (cause as Failure) ?? {}
  return FULL.has(code) || FULL.has(name) || $metadata?.httpStatusCode === 507
    ? new AppError('insufficient_storage', 'insufficient storage', { cause })
    : cause
}
