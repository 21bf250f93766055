import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { BusboyFileStream, BusboyInstance } from '@fastify/busboy'
import { type AppError, badRequest } from '../../core/errors.ts'
import { PartHeaders } from './part-headers.ts'

export type FilePart = {
  stream: Readable
  /** Without folders; empty when the client named none. */
  fileName: string
  /** As the client declares it, lower case and without parameters. */
  contentType: string
}

type Form<T> = { fields: ReadonlyMap<string, string>; file: T }

type FormOptions<T> = {
  maxFileBytes: number
  /** The error for a file that is larger, where it has one of its own. */
  tooLarge?: () => AppError
  /** Aborting ends the upload with the signal's reason. */
  signal: AbortSignal
  /** Consumes the file; its pace is the pace of the form. */
  store(part: FilePart): Promise<T>
  /** Undoes `store` when the rest of the form is invalid. */
  discard(stored: T): Promise<void>
}

/** Everything except the file: boundaries, part headers, fields, preamble and epilogue. */
const MAX_OVERHEAD_BYTES = 256 * 1024
const LIMITS = { parts: 32, fields: 32, files: 1, fieldSize: 8 * 1024, headerPairs: 32, headerSize: 16 * 1024 }

const badForm = (): AppError => badRequest('invalid multipart form or file too large', 'invalid_body')

/** A multipart/form-data body (RFC 7578) with one `file`, streamed: memory does not grow with the file. */
export async function readForm<T>(request: IncomingMessage, reading: FormOptions<T>): Promise<Form<T>> {
  const { headers } = request
  const type = headers['content-type'] ?? ''
  const boundary = /^multipart\/form-data\s*;/i.test(type) ? boundaryOf(type) : undefined
  const announced = Number(headers['content-length'] ?? 0)
  if (boundary === undefined) throw badForm()
  if (announced > reading.maxFileBytes + MAX_OVERHEAD_BYTES) throw reading.tooLarge?.() ?? badForm()
  const parser = await parserFor(boundary, reading.maxFileBytes)
  const parts = new PartHeaders(boundary, LIMITS)
  return new Promise((resolve, reject) => new FormReader(request, parser, parts, reading, resolve, reject))
}

/** RFC 2046 §5.1.1. */
const boundaryOf = (type: string): string | undefined => {
  const [, quoted, plain] = /;\s*boundary=(?:"([^"\\]{1,70})"|([^\s;"]{1,70}))\s*(?:;|$)/i.exec(type) ?? []
  return quoted ?? plain
}

async function parserFor(boundary: string, maxFileBytes: number): Promise<BusboyInstance> {
  const { Busboy } = await import('@fastify/busboy')
  const headers = { 'content-type': `multipart/form-data; boundary="${boundary}"` }
  try {
    return new Busboy({ headers, limits: { ...LIMITS, fileSize: maxFileBytes } })
  } catch {
    throw badForm()
  }
}

class FormReader<T> {
  readonly #request: IncomingMessage
  readonly #parser: BusboyInstance
  readonly #parts: PartHeaders
  readonly #reading: FormOptions<T>
  readonly #resolve: (form: Form<T>) => void
  readonly #reject: (error: unknown) => void
  readonly #fields = new Map<string, string>()
  #file: BusboyFileStream | undefined
  #stored: Promise<T> | undefined
  #received = 0
  #isOver = false

  constructor(
    request: IncomingMessage,
    parser: BusboyInstance,
    parts: PartHeaders,
    reading: FormOptions<T>,
    resolve: (form: Form<T>) => void,
    reject: (error: unknown) => void,
  ) {
    this.#request = request
    this.#parser = parser
    this.#parts = parts
    this.#reading = reading
    this.#resolve = resolve
    this.#reject = reject
    parser
      .on('file', (name, stream, fileName, _encoding, type) => this.#onFile(name, stream, fileName, type))
      .on('field', (name, value, _nameCut, valueCut) => this.#onField(name, value, valueCut))
      .on('partsLimit', this.#refuse)
      .on('filesLimit', this.#refuse)
      .on('fieldsLimit', this.#refuse)
      .on('error', this.#refuse)
      .on('finish', this.#onFinish)
    request.on('data', this.#onData).on('error', this.#onGone).on('close', this.#onGone)
    reading.signal.addEventListener('abort', this.#onAbort, { once: true })
    if (reading.signal.aborted) this.#onAbort()
    else if (request.destroyed) this.#onGone()
    else request.pipe(parser)
  }

  #onFile(name: string | undefined, stream: BusboyFileStream, fileName: string | undefined, contentType: string): void {
    stream.on('error', this.#refuse).on('limit', () => this.#fail(this.#reading.tooLarge?.() ?? badForm()))
    if (name !== 'file' && name && !this.#stored) {
      // With a file of the right name behind it there are two, which is refused.
      stream.resume()
      return
    }
    if (name !== 'file' || this.#stored || contentType.startsWith('multipart/')) {
      stream.resume()
      this.#refuse()
      return
    }
    this.#file = stream
    this.#stored = this.#reading.store({ stream, fileName: fileName ?? '', contentType })
    this.#stored.catch((error: unknown) => this.#fail(error))
  }

  #onField(name: string | undefined, value: string, isCut: boolean): void {
    if (!name || isCut || this.#fields.has(name)) this.#refuse()
    else this.#fields.set(name, value)
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#received += chunk.length
    // The parser receives a chunk after this listener, so the last chunk does not count.
    const isOver = this.#received - chunk.length - (this.#file?.bytesRead ?? 0) > MAX_OVERHEAD_BYTES
    if (isOver || !this.#parts.accepts(chunk)) this.#refuse()
  }

  readonly #onFinish = (): void => {
    if (this.#isOver) return
    if (this.#stored === undefined) {
      this.#fail(badRequest('missing "file" field in multipart form', 'invalid_body'))
      return
    }
    this.#stored.then(
      (file) => {
        if (this.#isOver) return
        this.#end()
        this.#resolve({ fields: this.#fields, file })
      },
      () => {},
    )
  }

  readonly #refuse = (): void => this.#fail(badForm())
  readonly #onAbort = (): void => this.#fail(this.#reading.signal.reason)
  readonly #onGone = (): void => {
    // Node drops a complete body when invalid bytes follow on the connection.
    if (!this.#request.readableEnded) this.#fail(badRequest('request body was cut off', 'invalid_body'))
  }

  #end(): void {
    this.#isOver = true
    this.#request.off('data', this.#onData).off('error', this.#onGone).off('close', this.#onGone)
    this.#reading.signal.removeEventListener('abort', this.#onAbort)
  }

  /** Rejects after the stored file is discarded. */
  #fail(error: unknown): void {
    if (this.#isOver) return
    this.#end()
    this.#request.unpipe(this.#parser)
    this.#request.pause()
    this.#file?.destroy(error instanceof Error ? error : undefined)
    this.#parser.on('error', () => {})
    const { discard } = this.#reading
    const undone = this.#stored?.then(discard, () => {}) ?? Promise.resolve()
    undone.catch(() => {}).then(() => this.#reject(error))
  }
}
