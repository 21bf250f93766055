import { mkdir, open, readdir, rename, stat, unlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { isUuid } from '../../../core/uuid.ts'
import type { ByteRange } from '../../../http/files/conditions.ts'
import { type ByteSource, FileSource } from '../../../http/files/source.ts'
import { DiskReserve } from './disk-reserve.ts'
import { type Store, type StoredBlob, storeFailure } from './store.ts'

/** A live writer touches its file this often, even if no bytes arrive. */
const TOUCH_MS = 10_000
/** A file untouched for this long belongs to a dead writer. */
const ABANDONED_MS = 45_000
const WRITE_BUFFER = 256 * 1024

/**
 * A directory, which several servers may share. Bytes are written to `tmp/`, synced, and moved to
 * `blobs/<first two digits>/`, which therefore holds only complete files.
 */
export class LocalStore implements Store {
  readonly unfinishedSweepMs: number = TOUCH_MS
  readonly maxWrites = 256
  readonly #temporary: string
  readonly #blobs: string
  readonly #disk: DiskReserve
  readonly #writing = new Set<string>()
  readonly #made = new Set<string>()
  #touching: NodeJS.Timeout | undefined

  /** `reserve`: bytes of the disk that uploads leave free. */
  constructor(root: string, reserve: number) {
    this.#disk = new DiskReserve(root, reserve)
    this.#temporary = join(root, 'tmp')
    this.#blobs = join(root, 'blobs')
  }

  start(): void {
    this.#touching = setInterval(() => void this.#touch(), TOUCH_MS).unref()
  }

  takeRoom(bytes: number): Promise<void> | undefined {
    return this.#disk.take(bytes)
  }

  async requireRoom(bytes: number): Promise<void> {
    await this.#disk.requireFree(bytes).catch((error: unknown) => {
      throw storeFailure(error)
    })
  }

  async write(id: string, source: Readable): Promise<void> {
    const temporary = join(this.#temporary, id)
    this.#writing.add(temporary)
    try {
      await this.#directory(this.#temporary)
      const file = await open(temporary, 'wx', 0o600)
      await pipeline(source, file.createWriteStream({ highWaterMark: WRITE_BUFFER, flush: true }))
      const directory = this.#directoryOf(id)
      await this.#directory(directory)
      await rename(temporary, join(directory, id))
      await sync(directory)
    } catch (error) {
      // The directories may have been removed from outside; the next write creates them again.
      this.#made.clear()
      source.destroy()
      await unlink(temporary).catch(() => {})
      await this.remove(id).catch(() => {})
      throw error
    } finally {
      this.#writing.delete(temporary)
    }
  }

  async read(id: string, range: ByteRange): Promise<ByteSource | undefined> {
    const file = await open(join(this.#directoryOf(id), id)).catch(ignoreMissing)
    return file && new FileSource(file, range)
  }

  async bytes(id: string): Promise<Readable | undefined> {
    const file = await open(join(this.#directoryOf(id), id)).catch(ignoreMissing)
    return file?.createReadStream({ highWaterMark: WRITE_BUFFER })
  }

  async remove(id: string): Promise<void> {
    await unlink(join(this.#directoryOf(id), id)).catch(ignoreMissing)
  }

  async *list(): AsyncIterable<StoredBlob> {
    for (const shard of await names(this.#blobs)) {
      for (const id of await names(join(this.#blobs, shard))) {
        const found = isUuid(id) ? await stat(join(this.#blobs, shard, id)).catch(ignoreMissing) : undefined
        if (found) yield { id, modifiedAt: found.mtimeMs }
      }
    }
  }

  async removeUnfinished(): Promise<number> {
    const paths = (await names(this.#temporary)).map((name) => join(this.#temporary, name))
    const unknown = paths.filter((path) => !this.#writing.has(path))
    if (unknown.length === 0) return 0
    const now = await this.#now()
    let removed = 0
    for (const path of unknown) {
      const found = await stat(path).catch(ignoreMissing)
      if (!found || now - found.mtimeMs < ABANDONED_MS) continue
      await unlink(path).catch(ignoreMissing)
      removed++
    }
    return removed
  }

  async stop(): Promise<void> {
    clearInterval(this.#touching)
  }

  /** The time of the file system, which may be on another machine. */
  async #now(): Promise<number> {
    const probe = join(this.#temporary, `probe-${process.pid}`)
    await writeFile(probe, '', { mode: 0o600 })
    const { mtimeMs } = await stat(probe)
    await unlink(probe).catch(ignoreMissing)
    return mtimeMs
  }

  async #touch(): Promise<void> {
    const now = new Date()
    await Promise.allSettled([...this.#writing].map((path) => utimes(path, now, now)))
  }

  #directoryOf(id: string): string {
    // Ids are always our own UUIDs; this guards against path traversal through a bug.
    if (!isUuid(id)) throw new TypeError('not the id of a blob')
    return join(this.#blobs, id.slice(0, 2))
  }

  /** Creates a directory; its entry in the parent must survive a crash too. */
  async #directory(path: string): Promise<void> {
    if (this.#made.has(path)) return
    const first = await mkdir(path, { recursive: true, mode: 0o700 })
    if (first !== undefined) {
      await sync(join(path, '..'))
      await sync(join(first, '..'))
    }
    this.#made.add(path)
  }
}

async function sync(directory: string): Promise<void> {
  const handle = await open(directory, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const names = async (directory: string): Promise<string[]> => (await readdir(directory).catch(ignoreMissing)) ?? []

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
