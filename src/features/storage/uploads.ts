import { budgets } from '../../core/budgets.ts'
import { AppError } from '../../core/errors.ts'
import { AddressShares } from '../../http/address-shares.ts'
import { readForm } from '../../http/files/multipart.ts'
import { type Identify, requireStillKnown } from '../../http/guard.ts'
import type { Call } from '../../http/route.ts'
import type { Blobs } from './blobs/blobs.ts'
import type { Blob } from './blobs/store.ts'

export type Upload = {
  /** The field `name`, else the name of the file; may be empty. */
  name: string
  /** As the client declares it. */
  contentType: string
  /** The field `metadata`: the text of a JSON object. */
  metadata: string
  blob: Blob
}

/** One address may use one place in this many, and the operator has as many for when all are taken. */
const SHARE = 4

/** Receives forms with a file into the store, with limits on time, size and parallel uploads. */
export class Uploads {
  readonly #blobs: Blobs
  readonly #identify: Identify
  readonly #maxFileBytes: number
  readonly #timeoutMs: number
  readonly #shares: AddressShares

  constructor(
    blobs: Blobs,
    identify: Identify,
    options: { maxFileBytes: number; timeoutMs: number; maxParallel: number },
  ) {
    this.#blobs = blobs
    this.#identify = identify
    this.#maxFileBytes = options.maxFileBytes
    this.#timeoutMs = options.timeoutMs
    const share = Math.max(1, options.maxParallel / SHARE)
    const all = options.maxParallel
    this.#shares = new AddressShares({ all, share, operator: share, client: 'sends', pace: budgets.incomingPace })
  }

  /** Receives the file and passes it to `keep`, which writes the row; a refused file is removed again. */
  receive<T>(call: Call, keep: (upload: Upload) => Promise<T>): Promise<T> {
    return this.#shares.run(call, (signal) => this.#receive(call, keep, signal))
  }

  async #receive<T>(call: Call, keep: (upload: Upload) => Promise<T>, place: AbortSignal): Promise<T> {
    const timeout = new AbortController()
    const signal = AbortSignal.any([timeout.signal, place])
    const timer = setTimeout(() => timeout.abort(new AppError('timeout', 'upload timed out')), this.#timeoutMs)
    try {
      const upload = await this.#read(call, signal)
      try {
        signal.throwIfAborted()
        await requireStillKnown(this.#identify, call)
        return await keep(upload)
      } catch (error) {
        // A refusal was rolled back. After any other error the row may still be committed, e.g. if the connection was lost.
        const isRefusal = error instanceof AppError && (error.status < 500 || error.status === 507)
        if (isRefusal) await this.#blobs.discard(upload.blob)
        else this.#blobs.discardUnlessKept(upload.blob)
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
    const { blob, contentType, fileName } = file
    return { name: fields.get('name') || fileName, contentType, metadata: fields.get('metadata') ?? '{}', blob }
  }
}
