import { AppError, badRequest, notFound } from '../../../core/errors.ts'
import { appIdOf, type Identity, onBehalfOf, userIdOf } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import type { Sql } from '../../../db/sql.ts'
import { requireUnchanged } from '../../../http/files/conditions.ts'
import { contentTypeOf } from '../../../http/files/content-type.ts'
import { addBlob } from '../blobs/sql.ts'
import type { Blob } from '../blobs/store.ts'
import { encodedName, metadataOfFile, objectName } from './names.ts'
import type { PolicedObjects } from './policed.ts'
import { type BucketAccess, isPoliced, refusedFile, requireChange, requireEntry, requireRead } from './rights.ts'
import { overQuota, requireRules } from './rules.ts'
import {
  type BucketRules,
  type BucketState,
  bucketState,
  completeUpload,
  deleteObject,
  findObject,
  listObjects,
  lockName,
  type MadeObject,
  type NamePage,
  type ObjectRow,
  ownerlessBytes,
  putObject,
  requireQuota,
  type StoredObject,
  shareBucket,
} from './sql.ts'

type Headers = Readonly<Record<string, string | undefined>>

export type ObjectsDeps = {
  db: Db
  /** For callers about whom policies decide. */
  policed: PolicedObjects
  /** Prefix of the URLs of public objects. */
  baseUrl: () => string
  /** Bytes of all objects without owner. */
  ownerlessQuota: number
  /** Bytes of all objects of one account; 0 = no limit. */
  userQuota: number
  /** Statements that queue a purge of a public URL; none without a CDN. */
  purge: (url: string) => readonly Sql[]
  wakePurge: () => void
  /** Readers of the change log have something to read. */
  wakeLog: () => void
}

/** A bucket as an upload found it. */
export type TargetBucket = BucketRules & {
  name: string
  /** Of its settings, if it has any. */
  id: string | null
  access: BucketAccess
}

/** A file that has arrived. */
export type ReceivedFile = {
  name: string
  /** As the client declares it. */
  contentType: string
  /** The text of a JSON object. */
  metadata: string
  blob: Blob
  /** Of a resumable upload, which is complete with its object. `isStored`: the blob has its row already. */
  resumed?: { id: string; isStored: boolean }
}

/** Validators for conditional requests; equal bytes are the same version. */
export const versionOf = ({ sha256, updatedAt }: Pick<ObjectRow, 'sha256' | 'updatedAt'>) => ({
  etag: `"${sha256}"`,
  modifiedAt: updatedAt,
})

/** Objects in buckets: access checks and rows. */
export class Objects {
  readonly #deps: ObjectsDeps

  constructor(deps: ObjectsDeps) {
    this.#deps = deps
  }

  urlOf(bucket: string, name: string): string {
    return `${this.#deps.baseUrl()}/${bucket}/${encodedName(name)}`
  }

  /** JSON text: {items, totalItems}. */
  async list(who: Identity, query: NamePage): Promise<string> {
    const { db, baseUrl, policed } = this.#deps
    const viewer = { seesAll: who.kind === 'admin', userId: userIdOf(who) }
    const [found] = await db.rows<{ access: BucketAccess; body: string }>(
      onBehalfOf(who),
      listObjects({ ...query, ...viewer, baseUrl: baseUrl() }),
      // The objects of a bucket are counted.
      { kind: 'slow' },
    )
    const access = found?.access ?? 'public'
    if (isPoliced(access, who)) return policed.list(who, query)
    requireEntry(access, who)
    return found?.body ?? ''
  }

  /** Without access checks. `blobId` is null if there is no such object. */
  async find(who: Identity, bucket: string, name: string): Promise<ObjectRow> {
    const [found] = await this.#deps.db.rows<ObjectRow>(onBehalfOf(who), findObject(bucket, name))
    if (!found) throw new Error('an object was looked for without an answer')
    return found
  }

  async readable(who: Identity, bucket: string, name: string): Promise<StoredObject> {
    return this.requireReadable(who, await this.find(who, bucket, name), bucket, name)
  }

  /** What was found, if the caller may read it. Where policies decide, it is read again under them. */
  async requireReadable(who: Identity, found: ObjectRow, bucket: string, name: string): Promise<StoredObject> {
    const { access } = found
    if (isPoliced(access, who)) return { ...found, ...(await this.#deps.policed.find(who, bucket, name)) }
    requireEntry(access, who)
    const object = requireObject(found)
    requireRead(access, who, object)
    return object
  }

  /** What holds for a bucket, after the checks that need no name. */
  async target(who: Identity, bucket: string): Promise<TargetBucket & BucketState> {
    const [state] = await this.#deps.db.rows<BucketState>(onBehalfOf(who), bucketState(bucket, userIdOf(who)))
    if (!state) throw new Error('a bucket was looked for without an answer')
    requireEntry(state.access, who)
    return { ...state, name: bucket }
  }

  /**
   * Called before the body of an upload is read; answers which bucket it is for. Everything is judged again when the file has
   * arrived. `name` and `contentType` where they are known before.
   */
  async requireUpload(
    who: Identity,
    bucket: string,
    announcedBytes: number,
    file?: {
      name: string
      contentType: string /** Of a resumable upload, whose bytes count already. */
      uploadId?: string
    },
  ): Promise<TargetBucket> {
    const { policed, userQuota } = this.#deps
    const state = await this.target(who, bucket)
    const { ownerlessBytes, bucketBytes, userBytes, quotaBytes } = state
    if (file) requireRules(state, contentTypeOf(file.name, file.contentType), announcedBytes)
    // What it may replace is not known yet, so the quotas are held against it again when it is stored.
    if (userIdOf(who) === null && who.kind !== 'admin') this.requireRoom(Math.max(ownerlessBytes, announcedBytes))
    if (quotaBytes !== null && Math.max(bucketBytes, announcedBytes) > quotaBytes) throw overQuota()
    if (userQuota > 0 && userIdOf(who) !== null && Math.max(userBytes, announcedBytes) > userQuota) throw overQuota()
    if (isPoliced(state.access, who)) {
      if (file) await policed.tryPut(who, { ...file, bucket, bucketId: state.id ?? '', size: announcedBytes })
      else await policed.requireAnyUpload(who)
    } else if (file) {
      const found = await this.find(who, bucket, file.name)
      if (isThere(found)) requireChange(who, found)
    }
    return state
  }

  /** The rights are judged again, because they may have changed while the file arrived. */
  async put(
    who: Identity,
    target: TargetBucket,
    { name: given, contentType: declared, metadata, blob, resumed }: ReceivedFile,
    conditions: Headers = {},
  ): Promise<{ record: string; isNew: boolean }> {
    const { db, baseUrl, policed, purge, wakePurge, wakeLog, userQuota } = this.#deps
    if (given === '') throw badRequest('file name is required')
    const name = objectName(given)
    const { name: bucket } = target
    const contentType = contentTypeOf(name, declared)
    requireRules(target, contentType, blob.size)
    const file = { bucket, name, contentType, metadata: metadataOfFile(metadata), blob }
    if (isPoliced(target.access, who))
      return policed.put(who, { ...file, bucketId: target.id ?? '', ...(resumed && { resumed }) }, conditions)
    const stored = await db.tx(onBehalfOf(who), async (tx) => {
      await tx.fly([lockName(bucket, name), shareBucket(bucket)])
      const [before] = await tx.rows<ObjectRow>(findObject(bucket, name, 'for update'))
      if (isPoliced(before?.access ?? 'public', who)) throw refusedFile()
      requireEntry(before?.access ?? 'public', who)
      // Without its settings a bucket would be public.
      const isGone = target.id !== null && before?.bucketId !== target.id
      if (isGone) throw notFound('bucket not found', 'bucket_not_found')
      if (isThere(before)) {
        requireChange(who, before)
        if (before.access === 'public') for (const push of purge(this.urlOf(bucket, name))) await tx.run(push)
      }
      requireUnchanged(conditions, isThere(before) ? versionOf(before) : undefined)
      if (!resumed?.isStored) await tx.run(addBlob(blob))
      if (resumed) await tx.run(completeUpload(resumed.id))
      const owner = { userId: userIdOf(who), isOperators: who.kind === 'admin', appId: appIdOf(who) }
      const [made] = await tx.rows<MadeObject>(putObject({ ...file, ...owner }, baseUrl()))
      if (made?.isOwnerless) this.requireRoom(Number(await tx.fly(ownerlessBytes)))
      await tx.run(requireQuota(bucket, made?.owner ?? null, who.kind === 'admin' ? 0 : userQuota))
      return { record: made?.record ?? '', isNew: made?.isNew ?? false }
    })
    wakePurge()
    wakeLog()
    return stored
  }

  /** `bytes`: of all that has no owner. */
  requireRoom(bytes: number): void {
    if (bytes > this.#deps.ownerlessQuota) throw new AppError('insufficient_storage', 'insufficient storage')
  }

  async remove(who: Identity, bucket: string, name: string, headers: Headers): Promise<void> {
    const { db, policed, purge, wakePurge, wakeLog } = this.#deps
    const isByPolicy = await db.tx(onBehalfOf(who), async (tx) => {
      const [object] = await tx.rows<ObjectRow>(findObject(bucket, name, 'for update'))
      if (isPoliced(object?.access ?? 'public', who)) return true
      requireEntry(object?.access ?? 'public', who)
      const there = requireObject(object)
      requireChange(who, there)
      requireUnchanged(headers, versionOf(there))
      await tx.run(deleteObject(bucket, name))
      if (there.access === 'public') for (const push of purge(this.urlOf(bucket, name))) await tx.run(push)
      return false
    })
    if (isByPolicy) await policed.remove(who, bucket, name, headers)
    else wakePurge()
    wakeLog()
  }
}

export function requireObject(object: ObjectRow | undefined): StoredObject {
  if (!isThere(object)) throw notFound('file not found', 'file_not_found')
  return object
}

export const isThere = (object: ObjectRow | undefined): object is StoredObject =>
  object !== undefined && object.blobId !== null
