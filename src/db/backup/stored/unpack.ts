import { createHash, type Hash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isWalFile, type Manifest } from './manifest.ts'
import { SealError } from './seal.ts'
import { type TarEntry, TarParser } from './tar.ts'

/** Largest segment of the log that PostgreSQL can be built with. */
const MOST_SEGMENT_BYTES = 2 ** 30
const TABLESPACE = /^tablespace-(\d{1,10})$/

/** Where the files of an object lie in the cluster. */
function folderOf(object: string): string {
  const oid = TABLESPACE.exec(object)?.[1]
  return oid === undefined ? '' : `pg_tblspc/${oid}/`
}

export const isArchive = (object: string): boolean => object === 'base' || TABLESPACE.test(object)

/** Configuration of the copied cluster is replaced by ours; tablespaces lie inside the new directory. */
const isLeftOut = (path: string): boolean =>
  path.endsWith('.conf') ||
  ['tablespace_map', 'standby.signal', 'recovery.signal', 'postmaster.pid', 'postmaster.opts'].includes(path)

const isSafeName = (path: string): boolean =>
  path.length < 1000 &&
  path.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !/[\\\p{Cc}]/u.test(part))

/**
 * Reads the archives of a backup. Only regular files that its manifest names, with their sizes and checksums, and segments
 * of the log are accepted. Without a folder it only looks, so that a refusal comes before the first byte is written.
 */
export class Unpacker {
  readonly #manifest: Manifest
  readonly #folder: string | undefined
  readonly #seen = new Set<string>()
  readonly #made = new Set<string>()

  constructor(manifest: Manifest, folder?: string) {
    this.#manifest = manifest
    this.#folder = folder
  }

  async unpack(object: string, bytes: AsyncIterable<Buffer>): Promise<void> {
    const prefix = folderOf(object)
    let file: { path: string; hash: Hash; handle: FileHandle | undefined } | undefined
    let entry: TarEntry | undefined
    const parser = new TarParser({
      onEntry: (next) => {
        entry = next
        this.#require(prefix + next.name, next)
      },
      onBytes: async (part) => {
        file ??= await this.#create(prefix, entry)
        file?.hash.update(part)
        if (file?.handle) await file.handle.appendFile(part)
      },
      onEntryEnd: async () => {
        if (entry?.type === 'directory') await this.#makeFolder(prefix + entry.name)
        if (entry?.type === 'file') {
          file ??= await this.#create(prefix, entry)
          await file?.handle?.close()
          if (file) this.#compare(file.path, file.hash.digest('hex'))
        }
        file = undefined
      },
    })
    try {
      for await (const part of bytes) await parser.write(part)
      await parser.end()
    } finally {
      await file?.handle?.close().catch(() => {})
    }
  }

  /** Every file of the manifest has been there. */
  requireWhole(): void {
    for (const path of this.#manifest.files.keys()) {
      if (!this.#seen.has(path)) throw new SealError(`the backup has no ${path}, which its manifest names`)
    }
  }

  #require(path: string, { type, size }: TarEntry): void {
    const shown = JSON.stringify(path.slice(0, 200))
    if (path.startsWith('/') || !isSafeName(path))
      throw new SealError(`the backup has a file outside of its folder: ${shown}`)
    // The link of a tablespace, which is a folder here: its files have an archive of their own.
    if (type === 'directory' || (type === 'link' && /^pg_tblspc\/\d{1,10}$/.test(path))) return
    if (type !== 'file') throw new SealError(`the backup has something that is no file: ${shown}`)
    if (this.#seen.has(path)) throw new SealError(`the backup has a file twice: ${shown}`)
    this.#seen.add(path)
    const listed = this.#manifest.files.get(path)
    if (listed ? listed.size !== size : !isWalFile(path) || size > MOST_SEGMENT_BYTES) {
      throw new SealError(`the backup has a file that its manifest does not name: ${shown}`)
    }
  }

  async #create(prefix: string, entry: TarEntry | undefined) {
    if (entry?.type !== 'file') return undefined
    const path = prefix + entry.name
    const hash = createHash('sha256')
    if (this.#folder === undefined || isLeftOut(path)) return { path, hash, handle: undefined }
    await this.#makeFolder(dirname(path))
    // Never through a link, and never over something.
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0)
    return { path, hash, handle: await open(join(this.#folder, path), flags, 0o600) }
  }

  #compare(path: string, sha256: string): void {
    const listed = this.#manifest.files.get(path)
    if (listed?.sha256 !== undefined && listed.sha256 !== sha256) {
      throw new SealError(`${path} differs from the manifest of the backup`)
    }
  }

  async #makeFolder(path: string): Promise<void> {
    if (this.#folder === undefined || this.#made.has(path)) return
    await mkdir(join(this.#folder, path), { recursive: true, mode: 0o700 })
    this.#made.add(path)
  }
}
