import { budgets } from '../../../core/budgets.ts'
import { AppError } from '../../../core/errors.ts'
import { AddressShares } from '../../../http/address-shares.ts'
import { bodyStream } from '../../../http/files/body-stream.ts'
import { readForm } from '../../../http/files/multipart.ts'
import { type Identify, requireStillKnown } from '../../../http/guard.ts'
import type { Call } from '../../../http/route.ts'
import type { Blobs } from '../blobs/blobs.ts'
import type { ReceivedFile } from './objects.ts'
import { fileTooLarge } from './rules.ts'

/** The most bytes that are taken; null = `storage.max_file_size`. */
type Limits = { maxSize: number | null }

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

  /** Receives the file of a form and passes it to `keep`, which writes the row; a refused file is removed again. */
  receive<T>(call: Call, keep: (file: ReceivedFile) => Promise<T>, limits: Limits = { maxSize: null }): Promise<T> {
    const read = (signal: AbortSignal) => this.#readForm(call, signal, limits)
    return this.#shares.run(call, (signal) => this.#receive(call, read, keep, signal))
  }

  /** As `receive`, of a body that is the file. */
  receiveBody<T>(
    call: Call,
    { name, maxSize }: Limits & { name: string },
    keep: (file: ReceivedFile) => Promise<T>,
  ): Promise<T> {
    const read = async (signal: AbortSignal): Promise<ReceivedFile> => {
      const maxBytes = Math.min(this.#maxFileBytes, maxSize ?? this.#maxFileBytes)
      const blob = await this.#blobs.receive(bodyStream(call.raw.request, { maxBytes, signal, tooLarge: fileTooLarge }))
      return { name, contentType: bodyType(call), metadata: '', blob }
    }
    return this.#shares.run(call, (signal) => this.#receive(call, read, keep, signal))
  }

  /** A place for bytes that arrive in another way, such as a part of a resumable upload. */
  withPlace<T>(call: Call, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#shares.run(call, (place) => this.#inTime(place, work))
  }

  async #inTime<T>(place: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const timeout = new AbortController()
    const timer = setTimeout(() => timeout.abort(new AppError('timeout', 'upload timed out')), this.#timeoutMs)
    try {
      return await work(AbortSignal.any([timeout.signal, place]))
    } finally {
      clearTimeout(timer)
    }
  }

  #receive<T>(
    call: Call,
    read: (signal: AbortSignal) => Promise<ReceivedFile>,
    keep: (file: ReceivedFile) => Promise<T>,
    place: AbortSignal,
  ): Promise<T> {
    return this.#inTime(place, async (signal) => {
      const upload = await read(signal)
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
    })
  }

  async #readForm({ raw }: Call, signal: AbortSignal, { maxSize }: Limits): Promise<ReceivedFile> {
    const { fields, file } = await readForm(raw.request, {
      maxFileBytes: Math.min(this.#maxFileBytes, maxSize ?? this.#maxFileBytes),
      ...(maxSize !== null && maxSize < this.#maxFileBytes && { tooLarge: fileTooLarge }),
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

/** The declared type, as forms have it: lower case, without parameters. */
const bodyType = ({ headers }: Call): string =>
  (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? ''
