import { Readable } from 'node:stream'
import { entryCache } from '../../../core/entry-cache.ts'
import { AppError, serverBusy } from '../../../core/errors.ts'
import { type Identity, onBehalfOf, ownerOf } from '../../../core/identity.ts'
import { KeyedMutex, Semaphore } from '../../../core/limits.ts'
import type { Db } from '../../../db/db.ts'
import { isUniqueViolation } from '../../../db/pg-errors.ts'
import type { Call } from '../../../http/route.ts'
import { addressSubject } from '../../../http/wire/client-address.ts'
import type { Blobs } from '../blobs/blobs.ts'
import type { StoredObject } from '../objects/sql.ts'
import { formatFor, type Transform, tooLarge } from './parameters.ts'
import { imageKind, SIGNATURE_BYTES } from './signature.ts'
import * as q from './sql.ts'
import { ImageWorker, noSharp } from './worker.ts'

type Deps = {
  db: Db
  blobs: Blobs
  cacheBytes: number /** Where sharp is; undefined if it is not installed. */
  library: string | undefined
}

const AT_ONCE = 2
const MAX_WAITING = 100
const WAIT_MS = 10_000
/** Of an original: it is in the child's memory. */
const MAX_INPUT = 64 * 2 ** 20
const TYPES: Readonly<Record<string, string>> = {
  ...{ avif: 'image/avif', webp: 'image/webp', jpeg: 'image/jpeg', png: 'image/png' },
}

/** Images in other sizes and formats, made once and kept as blobs of their own, of which the oldest go first. */
export class ImageTransforms {
  readonly #deps: Deps
  readonly #workers: ImageWorker[] = []
  readonly #places = new Semaphore(AT_ONCE)
  /** One image of a caller at a time; others of the caller wait here and keep no place. */
  readonly #callers = new KeyedMutex()
  /** What is being made, for all who want the same. */
  readonly #making = new Map<string, Promise<q.KeptImage>>()
  /** Where those that were wanted lately are; one that has left meanwhile is looked for again. */
  readonly #recent = entryCache<q.KeptImage>(10_000)
  #waiting = 0
  #isStopped = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** The image, which the caller may read in its original. `isMissing`: what was given before is gone. */
  async get(call: Call, object: StoredObject, transform: Transform, isMissing = false): Promise<q.KeptImage> {
    const { db, library } = this.#deps
    if (library === undefined) throw noSharp()
    const format = formatFor(transform, call.headers['accept'])
    const { format: _, ...rest } = transform
    const wanted: Transform = format === undefined ? rest : { ...rest, format }
    const parameters = JSON.stringify(Object.entries(wanted).sort(([a], [b]) => (a < b ? -1 : 1)))
    const key = `${object.sha256} ${parameters}`
    const recent = isMissing ? undefined : this.#recent.get(key)
    if (recent) return recent
    const [kept] = await db.rows<q.KeptImage>(onBehalfOf(call.who), q.findImage(object.sha256, parameters))
    if (kept) {
      this.#recent.set(key, kept)
      return kept
    }
    const known = this.#making.get(key)
    if (known) return known
    const making = this.#queued(call, () => this.#make(call.who, object, wanted, parameters, library))
    this.#making.set(key, making)
    return making.finally(() => this.#making.delete(key))
  }

  async #queued<T>(call: Call, work: () => Promise<T>): Promise<T> {
    if (this.#waiting >= MAX_WAITING) throw serverBusy()
    this.#waiting++
    const wait = { timeoutMs: WAIT_MS, onTimeout: serverBusy }
    const caller = ownerOf(call.who) ?? addressSubject(call.ip)
    try {
      return await this.#callers.run(caller, () => this.#places.run(work, wait), wait)
    } finally {
      this.#waiting--
    }
  }

  async #make(
    who: Identity,
    object: StoredObject,
    wanted: Transform,
    parameters: string,
    library: string,
  ): Promise<q.KeptImage> {
    const { blobs, db, cacheBytes } = this.#deps
    const { blobId, size, sha256 } = object
    const kind = imageKind(await this.#read(blobId, Math.min(size, SIGNATURE_BYTES)))
    if (kind === undefined) throw new AppError('unprocessable', 'not an image, or a broken one')
    if (size > MAX_INPUT) throw tooLarge()
    const source = await blobs.read(blobId, { start: 0, end: size - 1 })
    if (!source) throw new AppError('file_not_found', 'file not found')
    const worker = this.#workers.pop() ?? new ImageWorker(library)
    const made = await worker.run({ ...wanted, kind, bytes: size }, source.stream()).finally(() => {
      if (this.#isStopped) worker.stop()
      else this.#workers.push(worker)
    })
    const blob = await blobs.receive(Readable.from([made.data], { objectMode: false }))
    const image = { ...blob, contentType: TYPES[made.format] ?? 'application/octet-stream' }
    const me = onBehalfOf(who)
    try {
      const [mine] = await db.rows(me, q.keepImage(sha256, parameters, image))
      await db.run(me, q.dropOldest(cacheBytes))
      if (mine) return image
    } catch (error) {
      if (!isUniqueViolation(error)) {
        blobs.discardUnlessKept(blob)
        throw error
      }
    }
    await blobs.discard(blob)
    const [theirs] = await db.rows<q.KeptImage>(me, q.findImage(sha256, parameters))
    if (!theirs) throw serverBusy()
    return theirs
  }

  async #read(blobId: string, bytes: number): Promise<Buffer> {
    const head = bytes === 0 ? undefined : await this.#deps.blobs.read(blobId, { start: 0, end: bytes - 1 })
    const pieces: Buffer[] = []
    for await (const piece of head?.stream() ?? []) pieces.push(piece as Buffer)
    return Buffer.concat([...pieces, Buffer.alloc(Math.max(0, 12 - bytes))])
  }

  stop(): void {
    this.#isStopped = true
    for (const worker of this.#workers) worker.stop()
  }
}
