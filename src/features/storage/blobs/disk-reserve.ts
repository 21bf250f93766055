import { mkdir, statfs } from 'node:fs/promises'

/** Bytes that may be written, by all uploads of the process, before the disk is looked at again. */
const SLICE = 16 * 2 ** 20
const MIN_PART = 0.05

/** Free space that uploads leave on their disk, because the database may be on it too. */
export class DiskReserve {
  readonly #directory: string
  readonly #bytes: number
  #left = 0

  /** `bytes`: at least this, and a twentieth of the disk; 0 = none. */
  constructor(directory: string, bytes: number) {
    this.#directory = directory
    this.#bytes = bytes
  }

  /** Rejects as a full disk does if the bytes would come out of the reserve. Undefined while there is room for sure. */
  take(bytes: number): Promise<void> | undefined {
    if (this.#bytes === 0) return undefined
    this.#left -= bytes
    return this.#left >= 0 ? undefined : this.#look(bytes)
  }

  /** Rejects as a full disk does if so many bytes are not free. */
  async requireFree(bytes: number): Promise<number> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 })
    const { bavail, blocks, bsize } = await statfs(this.#directory)
    const reserve = this.#bytes === 0 ? 0 : Math.max(this.#bytes, blocks * bsize * MIN_PART)
    const free = bavail * bsize - reserve
    if (free < bytes) throw Object.assign(new Error('only the reserve of the disk is left'), { code: 'ENOSPC' })
    return free
  }

  async #look(bytes: number): Promise<void> {
    this.#left = Math.min(await this.requireFree(bytes), SLICE) - bytes
  }
}
