/** Where backups lie: a folder or a bucket. It is not trusted: what comes back is opened by `Seals`. */
export interface BackupTarget {
  /** For people: the folder, or s3://bucket/prefix. */
  readonly url: string
  /**
   * Stores an object; nothing is there under its name before it is whole and durable. Resolves to its size. Parts are the
   * target's from when it takes them.
   */
  put(name: string, source: AsyncIterable<Buffer>, options?: PutOptions): Promise<number>
  /** Undefined where there is none. */
  get(name: string): Promise<AsyncIterable<Buffer> | undefined>
  /** Names that begin with `prefix`, in no order; what is not named as ours are is left out. */
  list(prefix: string): AsyncIterable<TargetObject>
  remove(name: string): Promise<void>
  /** A file that grows, where the target has such; each `append` resolves when its bytes are durable. */
  append?(name: string): Promise<Growing>
  close(): void
}

export type PutOptions = {
  signal?: AbortSignal | undefined
  /** Bytes to expect at most, where that is known: S3 has a limited number of parts. */
  expected?: number
}

export type TargetObject = { name: string; bytes: number; modifiedAt: number }
export type Growing = { append(bytes: Buffer): Promise<void>; close(): Promise<void> }

/** Our own names: lower case, digits and dashes, never a dot at the beginning. */
const NAME = /^[a-z0-9][a-z0-9_-]*(\.[a-z]+)?(\/[a-z0-9][a-z0-9_-]*(\.[a-z]+)?)*$/
export const isTargetName = (name: string): boolean => name.length < 200 && NAME.test(name)

/** Guards against a path made of something else than our own names. */
export function requireName(name: string): string {
  if (!isTargetName(name)) throw new TypeError(`not the name of an object of a backup: ${name}`)
  return name
}
