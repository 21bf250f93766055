import { AppError } from '../../core/errors.ts'
import { AddressShares } from '../../http/address-shares.ts'
import { readForm } from '../../http/files/multipart.ts'
import type { Call } from '../../http/route.ts'
import type { Blobs } from './blobs/blobs.ts'
import type { Blob } from './blobs/store.ts'

export type Upload = {
  /** The field `name`, else the name of the file; may be empty. */
  name: string
  /** As the client declares it. */
  contentType: string
  blob: Blob
}

/** One address may use one slot in this many. */
const SHARE = 4

/** Receives forms with a file into the store, with limits on time, size and parallel uploads. */
export class Uploads {
  readonly #blobs: Blobs
  readonly #maxFileBytes: number
  readonly #timeoutMs: number
  readonly #shares: AddressShares

  constructor(blobs: Blobs, options: { maxFileBytes: number; timeoutMs: number; maxParallel: number }) {
    this.#blobs = blobs
    this.#maxFileBytes = options.maxFileBytes
    this.#timeoutMs = options.timeoutMs
    this.#shares = new AddressShares({ all: options.maxParallel, share: Math.max(1, options.maxParallel / SHARE) })
  }

  /** Receives the file and passes it to `keep`, which writes the row; a refused file is removed again. */
  receive<T>(call: Call, keep: (upload: Upload) => Promise<T>): Promise<T> {
    return this.#shares.run(call.ip, () => this.#receive(call, keep))
  }

  async #receive<T>(call: Call, keep: (upload: Upload) => Promise<T>): Promise<T> {
    const timeout = new AbortController()
    const timer = setTimeout(() => timeout.abort(new AppError('timeout', 'upload timed out')), this.#timeoutMs)
    try {
      const upload = await this.#read(call, timeout.signal)
      try {
        timeout.signal.throwIfAborted()
        return await keep(upload)
      } catch (error) {
        // A refusal was rolled back. After any other error the row may still be committed, e.g. if the connection was
        // lost, so the bytes are left to the orphan sweep.
        if (error instanceof AppError && error.status < 500) await this.#blobs.discard(upload.blob)
        throw error
      }
    } finally {
      clearTimeout(timer)
    }
  }

  async #read({ raw }: Call, signal: AbortSignal): Promise<Upload> {
    const { fields, file } = await readForm(raw.request, {
      maxFileBytes: this.#maxFileBytes,
      signal,
      store: async ({ stream, fileName, contentType }) => ({
        blob: await this.#blobs.receive(stream),
        fileName,
        contentType,
      }),
      discard: ({ blob }) => this.#blobs.discard(blob),
    })
    return { name: fields.get('name') || file.fileName, contentType: file.contentType, blob: file.blob }
  }
}
