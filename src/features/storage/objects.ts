import { AppError, badRequest, notFound } from '../../core/errors.ts'
import { appIdOf, type Identity, onBehalfOf, userIdOf } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { requireMatch } from '../../http/files/conditions.ts'
import { contentTypeOf } from '../../http/files/content-type.ts'
import { addBlob } from './blobs/sql.ts'
import { encodedName, objectName } from './names.ts'
import { requireChange, requireEntry, requireRead } from './rights.ts'
import {
  type BucketState,
  bucketState,
  deleteObject,
  findObject,
  type Listing,
  listObjects,
  lockName,
  type ObjectRow,
  ownerlessBytes,
  putObject,
  type StoredObject,
  shareBucket,
} from './sql.ts'
import type { Upload } from './uploads.ts'

type Headers = Readonly<Record<string, string | undefined>>

type Deps = {
  db: Db
  /** Prefix of the URLs of public objects. */
  baseUrl: () => string
  /** Bytes of all objects without owner. */
  ownerlessQuota: number
  /** Statements that queue a purge of a public URL; none without a CDN. */
  purge: (url: string) => readonly Sql[]
  wakePurge: () => void
}

/** A bucket as an upload found it. */
type TargetBucket = { name: string /** Of its settings, if it has any. */; id: string | null }

/** Validators for conditional requests; equal bytes are the same version. */
export const versionOf = ({ sha256, updatedAt }: ObjectRow) => ({ etag: `"${sha256}"`, modifiedAt: updatedAt })

/** Objects in buckets: access checks and rows. */
export class Objects {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  urlOf(bucket: string, name: string): string {
    return `${this.#deps.baseUrl()}/${bucket}/${encodedName(name)}`
  }

  /** JSON text: {items, totalItems}. */
  async list(who: Identity, query: Pick<Listing, 'bucket' | 'prefix' | 'after' | 'limit' | 'offset'>): Promise<string> {
    const { db, baseUrl } = this.#deps
    const viewer = { seesAll: who.kind === 'admin', userId: userIdOf(who) }
    const [found] = await db.rows<{ public: boolean; body: string }>(
      onBehalfOf(who),
      listObjects({ ...query, ...viewer, baseUrl: baseUrl() }),
      // The objects of a bucket are counted.
      { kind: 'slow' },
    )
    requireEntry(found?.public ?? true, who)
    return found?.body ?? ''
  }

  /** Without access checks. `blobId` is null if there is no such object. */
  async find(who: Identity, bucket: string, name: string): Promise<ObjectRow> {
    const [found] = await this.#deps.db.rows<ObjectRow>(onBehalfOf(who), findObject(bucket, name))
    if (!found) throw new Error('an object was looked for without an answer')
    return found
  }

  async readable(who: Identity, bucket: string, name: string): Promise<StoredObject> {
    const found = await this.find(who, bucket, name)
    requireEntry(found.public, who)
    const object = requireObject(found)
    requireRead(object.public, who, object)
    return object
  }

  /** Called before the body of an upload is read; answers which bucket it is for. */
  async requireUpload(who: Identity, bucket: string, announcedBytes: number): Promise<TargetBucket> {
    const [state] = await this.#deps.db.rows<BucketState>(onBehalfOf(who), bucketState(bucket))
    if (!state) throw new Error('a bucket was looked for without an answer')
    requireEntry(state.public, who)
    // What it may replace is not known yet, so the quota is held against it again when it is stored.
    if (userIdOf(who) === null && who.kind !== 'admin')
      this.#requireQuota(Math.max(state.ownerlessBytes, announcedBytes))
    return { name: bucket, id: state.id }
  }

  /** JSON text: the record. The rights are judged again, because they may have changed while the file arrived. */
  async put(who: Identity, target: TargetBucket, { name: given, contentType, blob }: Upload): Promise<string> {
    const { db, baseUrl, purge, wakePurge } = this.#deps
    if (given === '') throw badRequest('file name is required')
    const name = objectName(given)
    const { name: bucket } = target
    const stored = await db.tx(onBehalfOf(who), async (tx) => {
      await tx.fly([lockName(bucket, name), shareBucket(bucket)])
      const [before] = await tx.rows<ObjectRow>(findObject(bucket, name, 'for update'))
      requireEntry(before?.public ?? true, who)
      // Without its settings a bucket would be public.
      const isGone = target.id !== null && before?.bucketId !== target.id
      if (isGone) throw notFound('bucket not found', 'bucket_not_found')
      if (isThere(before)) {
        requireChange(who, before)
        if (before.public) for (const push of purge(this.urlOf(bucket, name))) await tx.run(push)
      }
      await tx.run(addBlob(blob))
      const owner = { userId: userIdOf(who), isOperators: who.kind === 'admin', appId: appIdOf(who) }
      const object = { bucket, name, encodedName: encodedName(name), blobId: blob.id, ...owner }
      const put = putObject({ ...object, contentType: contentTypeOf(name, contentType) }, baseUrl())
      const [made] = await tx.rows<{ record: string; isOwnerless: boolean }>(put)
      if (made?.isOwnerless) this.#requireQuota(Number(await tx.fly(ownerlessBytes)))
      return made?.record ?? ''
    })
    wakePurge()
    return stored
  }

  #requireQuota(bytes: number): void {
    if (bytes > this.#deps.ownerlessQuota) throw new AppError('insufficient_storage', 'insufficient storage')
  }

  async remove(who: Identity, bucket: string, name: string, headers: Headers): Promise<void> {
    const { db, purge, wakePurge } = this.#deps
    await db.tx(onBehalfOf(who), async (tx) => {
      const [object] = await tx.rows<ObjectRow>(findObject(bucket, name, 'for update'))
      requireEntry(object?.public ?? true, who)
      const there = requireObject(object)
      requireChange(who, there)
      requireMatch(headers, versionOf(there))
      await tx.run(deleteObject(bucket, name))
      if (there.public) for (const push of purge(this.urlOf(bucket, name))) await tx.run(push)
    })
    wakePurge()
  }
}

export function requireObject(object: ObjectRow | undefined): StoredObject {
  if (!isThere(object)) throw notFound('file not found', 'file_not_found')
  return object
}

export const isThere = (object: ObjectRow | undefined): object is StoredObject =>
  object !== undefined && object.blobId !== null
