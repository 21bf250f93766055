import { createHash, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { AppError, notFound } from '../../../core/errors.ts'
import { type Identity, onBehalfOf, SYSTEM, userIdOf } from '../../../core/identity.ts'
import { KeyedMutex } from '../../../core/limits.ts'
import { isUuid } from '../../../core/uuid.ts'
import type { Db } from '../../../db/db.ts'
import { type Identify, requireStillKnown } from '../../../http/guard.ts'
import type { Call } from '../../../http/route.ts'
import type { Blobs } from '../blobs/blobs.ts'
import type { Blob, Store } from '../blobs/store.ts'
import type { Objects } from '../objects/objects.ts'
import { ownerlessBytes, requireQuota } from '../objects/sql.ts'
import type { Uploads } from '../objects/uploads.ts'
import { checksumIn } from './protocol.ts'
import { BodySlices } from './slices.ts'
import * as q from './sql.ts'

type Deps = {
  db: Db
  store: Store
  blobs: Blobs
  objects: Objects
  uploads: Uploads
  identify: Identify
  userQuota: number
  expirySeconds: number
}

/** What a part holds at most, and with it what a killed server loses. */
const PART_BYTES = 8 * 2 ** 20
const MAX_OPEN = 1_000

const gone = (): AppError => notFound('upload not found', 'upload_not_found')

/** Who may go on with an upload: the account, key or visitor that began it. */
const creatorOf = (who: Identity): string =>
  who.kind === 'admin' ? 'admin' : (userIdOf(who) ?? (who.kind === 'key' ? `key ${who.grantId ?? who.keyId}` : ''))

/**
 * Uploads that go on after a cut connection or a killed server, on any process: parts are blobs of their own, durable before their
 * row, and the row says where the next byte belongs. No two requests ever write to the same bytes.
 */
export class ResumableUploads {
  readonly #deps: Deps
  readonly #completing = new KeyedMutex()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  async create(
    who: Identity,
    given: { bucket: string; name: string; contentType: string; length: number; metadata: string },
  ): Promise<q.UploadRow> {
    const { db, store, objects, userQuota, expirySeconds } = this.#deps
    const { bucket, name, contentType, length } = given
    const target = await objects.requireUpload(who, bucket, length, { name, contentType })
    const me = onBehalfOf(who)
    const creator = creatorOf(who)
    await store.requireRoom?.(length + Number(await db.fly(me, q.awaitedBytes)))
    if (creator !== '' && Number(await db.fly(me, q.countOpen(creator))) > MAX_OPEN)
      throw new AppError('limit_reached', 'too many uploads are under way')
    const owner = { userId: userIdOf(who), isOperators: who.kind === 'admin' }
    return db.tx(me, async (tx) => {
      const upload = { id: randomUUID(), ...given, bucketId: target.id, creator, ...owner }
      const [row] = await tx.rows<q.UploadRow>(q.addUpload(upload, expirySeconds))
      if (owner.userId === null && !owner.isOperators) objects.requireRoom(Number(await tx.fly(ownerlessBytes)))
      await tx.run(requireQuota(bucket, owner.userId, userQuota))
      if (!row) throw new Error('an upload was begun without an answer')
      return row
    })
  }

  async find(who: Identity, bucket: string, id: string): Promise<q.UploadRow> {
    if (!isUuid(id)) throw gone()
    const [row] = await this.#deps.db.rows<q.UploadRow>(onBehalfOf(who), q.findUpload(id, bucket, creatorOf(who)))
    if (!row) throw gone()
    if (row.isExpired) throw new AppError('gone', 'upload expired')
    return row
  }

  /** Adds the body at `offset`; the new offset. Rights are judged before it is read, and again with the last byte. */
  async append(call: Call, upload: q.UploadRow, offset: number): Promise<number> {
    const { db, objects, uploads, identify } = this.#deps
    const { who } = call
    const { id, bucket, name, contentType, length } = upload
    await objects.requireUpload(who, bucket, length, { name, contentType, uploadId: id })
    const checksum = checksumIn(call.headers)
    return uploads.withPlace(call, async (signal) => {
      const writer = randomUUID()
      const [taken] = await db.rows<{ parts: number }>(onBehalfOf(who), q.takeUpload(id, writer, offset))
      if (!taken) throw new AppError('conflict', 'Upload-Offset is not where the upload ends')
      if (taken.parts >= q.MAX_PARTS)
        throw new AppError('payload_too_large', 'too many parts: begin again with larger chunks')
      const body = new BodySlices(call.raw.request, length - offset, signal)
      const end = checksum
        ? await this.#appendChecked(who, id, writer, offset, body, checksum)
        : await this.#append(who, id, writer, offset, body)
      if (end < length || body.wasCut) return end
      await requireStillKnown(identify, call)
      await this.complete(who, upload)
      return end
    })
  }

  async #append(who: Identity, id: string, writer: string, offset: number, body: BodySlices): Promise<number> {
    let end = offset
    while (await body.hasMore()) {
      const blob = await this.#deps.blobs.receive(body.slice(PART_BYTES))
      end = await this.#keep(who, id, writer, end, [blob])
    }
    return end
  }

  /** Nothing of a body counts before its checksum is known to be right. */
  async #appendChecked(
    who: Identity,
    id: string,
    writer: string,
    offset: number,
    body: BodySlices,
    { algorithm, digest }: { algorithm: string; digest: Buffer },
  ): Promise<number> {
    const { blobs } = this.#deps
    const hash = createHash(algorithm)
    const parts: Blob[] = []
    try {
      while (await body.hasMore()) {
        const slice = body.slice(PART_BYTES).on('data', (piece: Buffer) => hash.update(piece))
        slice.pause()
        parts.push(await blobs.receive(slice))
      }
      if (body.wasCut || !hash.digest().equals(digest)) throw new AppError('checksum_mismatch', 'checksum mismatch')
    } catch (error) {
      for (const part of parts) await blobs.discard(part)
      throw error
    }
    return parts.length === 0 ? offset : this.#keep(who, id, writer, offset, parts)
  }

  async #keep(who: Identity, id: string, writer: string, start: number, parts: readonly Blob[]): Promise<number> {
    const { db, blobs, expirySeconds } = this.#deps
    try {
      const statement = q.addParts(id, writer, start, parts, expirySeconds)
      const [moved] = await db.rows<{ received: number }>(onBehalfOf(who), statement)
      if (moved) return moved.received
    } catch (error) {
      for (const part of parts) blobs.discardUnlessKept(part)
      throw error
    }
    for (const part of parts) await blobs.discard(part)
    throw new AppError('conflict', 'another request goes on with this upload')
  }

  /** Makes the object of an upload whose bytes are all there. */
  complete(who: Identity, { id, bucket }: q.UploadRow): Promise<void> {
    return this.#completing.run(id, async () => {
      const upload = await this.find(who, bucket, id)
      if (!upload.isComplete) await this.#complete(who, upload)
    })
  }

  async #complete(who: Identity, { id, bucket, bucketId, name, contentType }: q.UploadRow): Promise<void> {
    const { db, blobs, objects } = this.#deps
    const target = await objects.target(who, bucket)
    if (bucketId !== null && target.id !== bucketId) throw notFound('bucket not found', 'bucket_not_found')
    const parts = await db.rows<Blob>(onBehalfOf(who), q.partsOf(id))
    const [only] = parts
    const isStored = only !== undefined && parts.length === 1
    const blob = isStored ? only : await blobs.receive(this.#joined(parts))
    try {
      await objects.put(who, target, { name, contentType, metadata: '', blob, resumed: { id, isStored } })
    } catch (error) {
      const isDone = error instanceof AppError && error.errorCode === 'already_done'
      const isRefusal = error instanceof AppError && (error.status < 500 || error.status === 507)
      if (!isStored && isRefusal) await blobs.discard(blob)
      else if (!isStored) blobs.discardUnlessKept(blob)
      // Another process was faster.
      if (!isDone) throw error
    }
  }

  #joined(parts: readonly Blob[]): Readable {
    const { blobs } = this.#deps
    async function* pieces(): AsyncGenerator<Buffer> {
      for (const { id, size } of parts) {
        const source = await blobs.read(id, { start: 0, end: size - 1 })
        if (!source) throw notFound('upload not found', 'upload_not_found')
        yield* source.stream() as AsyncIterable<Buffer>
      }
    }
    return Readable.from(pieces(), { objectMode: false, highWaterMark: 256 * 1024 })
  }

  async terminate(who: Identity, bucket: string, id: string): Promise<void> {
    await this.find(who, bucket, id)
    await this.#deps.db.run(onBehalfOf(who), q.removeUpload(id, creatorOf(who)))
  }

  async removeExpired(): Promise<void> {
    await this.#deps.db.run(SYSTEM, q.removeExpired)
  }
}
