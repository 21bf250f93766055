import { randomBytes } from 'node:crypto'
import { constants, createReadStream, type Stats } from 'node:fs'
import { chmod, type FileHandle, lstat, mkdir, open, readdir, rename, rm, rmdir, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { sleep } from '../../../core/clock.ts'
import { dropMemory } from '../../../core/drop-memory.ts'
import {
  type BackupTarget,
  type Growing,
  isTargetName,
  type PutOptions,
  requireName,
  type TargetObject,
} from './target.ts'

/** Written this far ahead of the disk: a commit of the database on the same one waits for what is being synced. */
const SYNC_EVERY = 2 ** 20
const REMOVE_STEP = 2 ** 23
const REMOVE_PAUSE_MS = 10
/** A draft untouched for so long belongs to a process that was killed. */
const ABANDONED_MS = 3_600_000

/** A folder; files are the owner's alone. */
export class DiskTarget implements BackupTarget {
  readonly url: string
  readonly #root: string

  constructor(root: string) {
    this.#root = root
    this.url = root
  }

  async put(name: string, source: AsyncIterable<Buffer>, { signal }: PutOptions = {}): Promise<number> {
    const file = this.#path(name)
    const draft = await this.#draft()
    await this.#folder(dirname(file))
    const handle = await open(draft, 'wx', 0o600)
    let bytes = 0
    let syncing: Promise<void> | undefined
    try {
      let unsynced = 0
      for await (const part of source) {
        signal?.throwIfAborted()
        await writeWhole(handle, part)
        bytes += part.length
        unsynced += part.length
        dropMemory(part)
        if (unsynced < SYNC_EVERY) continue
        await syncing
        syncing = handle.datasync()
        // Its failure is that of the next wait for it.
        syncing.catch(() => {})
        unsynced = 0
      }
      await syncing
      signal?.throwIfAborted()
      await handle.sync()
      await handle.close()
      await rename(draft, file)
      await syncFolder(dirname(file))
      return bytes
    } catch (error) {
      await syncing?.catch(() => {})
      await handle.close().catch(() => {})
      await rm(draft, { force: true })
      throw error
    }
  }

  async get(name: string): Promise<AsyncIterable<Buffer> | undefined> {
    const handle = await open(this.#path(name), 'r').catch(ignoreMissing)
    return handle && createReadStream('', { fd: handle, highWaterMark: 2 ** 20 })
  }

  async *list(prefix: string): AsyncIterable<TargetObject> {
    const at = prefix.lastIndexOf('/')
    yield* this.#listFolder(prefix.slice(0, Math.max(at, 0)), prefix)
  }

  async remove(name: string): Promise<void> {
    const file = this.#path(name)
    const draft = await this.#draft()
    const isThere = await rename(file, draft).then(() => true, ignoreMissing)
    // Another process may take it for an abandoned draft, and be faster.
    if (isThere) await removeInSteps(draft).catch(ignoreMissing)
    // Folders of a backup go with their last file.
    if (dirname(file) !== this.#root) await rmdir(dirname(file)).catch(() => {})
  }

  async append(name: string): Promise<Growing> {
    const file = this.#path(name)
    await this.#folder(dirname(file))
    const handle = await open(file, 'wx', 0o600)
    await syncFolder(dirname(file))
    return {
      async append(bytes) {
        await writeWhole(handle, bytes)
        await handle.datasync()
      },
      close: () => handle.close(),
    }
  }

  /** Drafts of processes that were killed. */
  async removeDrafts(): Promise<void> {
    const folder = join(this.#root, 'tmp')
    for (const name of (await readdir(folder).catch(ignoreMissing)) ?? []) {
      const found = await stat(join(folder, name)).catch(ignoreMissing)
      if (found && Date.now() - found.mtimeMs > ABANDONED_MS) await rm(join(folder, name), { force: true })
    }
  }

  close(): void {}

  /** Names come from the disk, where others may have made some: only ours are passed on, and links are not followed. */
  async *#listFolder(folder: string, prefix: string): AsyncGenerator<TargetObject> {
    const entries = await readdir(join(this.#root, folder), { withFileTypes: true }).catch(ignoreMissing)
    for (const entry of entries ?? []) {
      const name = folder === '' ? entry.name : `${folder}/${entry.name}`
      if (!isTargetName(name)) continue
      if (entry.isDirectory() && (prefix.startsWith(`${name}/`) || name.startsWith(prefix))) {
        if (name !== 'tmp') yield* this.#listFolder(name, prefix)
      } else if (entry.isFile() && name.startsWith(prefix)) {
        const found: Stats | undefined = await stat(join(this.#root, name)).catch(ignoreMissing)
        if (found) yield { name, bytes: found.size, modifiedAt: found.mtimeMs }
      }
    }
  }

  async #draft(): Promise<string> {
    const folder = join(this.#root, 'tmp')
    await this.#folder(folder)
    return join(folder, randomBytes(8).toString('hex'))
  }

  #path(name: string): string {
    return join(this.#root, requireName(name))
  }

  async #folder(path: string): Promise<void> {
    const first = await mkdir(path, { recursive: true, mode: 0o700 })
    if (first === undefined) return
    await chmod(path, 0o700)
    for (let made = path; made.length >= first.length; made = dirname(made)) await syncFolder(dirname(made))
  }
}

/** A disk that is nearly full takes a part and answers how much. */
async function writeWhole(handle: FileHandle, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, at, bytes.length - at)
    at += bytesWritten
  }
}

/**
 * A gigabyte that is given back at once keeps the disk busy for so long that commits of a database on it wait. A link is removed as
 * it is, and so is a file that has another name elsewhere.
 */
async function removeInSteps(file: string): Promise<void> {
  const found = await lstat(file)
  if (found.isFile() && found.nlink === 1 && found.size > REMOVE_STEP) {
    const handle = await open(file, constants.O_RDWR | constants.O_NOFOLLOW)
    try {
      for (let size = found.size - REMOVE_STEP; size > 0; size -= REMOVE_STEP) {
        await handle.truncate(size)
        await handle.sync()
        await sleep(REMOVE_PAUSE_MS)
      }
    } finally {
      await handle.close()
    }
  }
  await unlink(file)
}

export async function syncFolder(folder: string): Promise<void> {
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error
}
