import { badRequest, notFound } from '../../core/errors.ts'
import { appIdOf, type Identity, SYSTEM, userIdOf } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { requireMatch } from '../../http/files/conditions.ts'
import { contentTypeOf } from '../../http/files/content-type.ts'
import { addBlob } from './blobs/sql.ts'
import { encodedName, objectName } from './names.ts'
import { requireChange, requireEntry, requireRead } from './rights.ts'
import { deleteObject, findObject, listObjects, lockName, type ObjectRow, putObject, type StoredObject } from './sql.ts'
import type { Upload } from './uploads.ts'

type Headers = Readonly<Record<string, string | undefined>>

type Deps = {
  db: Db
  /** Prefix of the URLs of public objects. */
  baseUrl: () => string
  /** Statements that queue a purge of a public URL; none without a CDN. */
  purge: (url: string) => readonly Sql[]
  wakePurge: () => void
}

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
  async list(who: Identity, query: { bucket: string; prefix: string; limit: number; offset: number }): Promise<string> {
    const { db, baseUrl } = this.#deps
    const viewer = { seesAll: who.kind === 'admin', userId: userIdOf(who) }
    const [found] = await db.rows<{ public: boolean; body: string }>(
      SYSTEM,
      listObjects({ ...query, ...viewer, baseUrl: baseUrl() }),
    )
    requireEntry(found?.public ?? true, who)
    return found?.body ?? ''
  }

  /** Without access checks. `blobId` is null if there is no such object. */
  async find(bucket: string, name: string): Promise<ObjectRow> {
    const [found] = await this.#deps.db.rows<ObjectRow>(SYSTEM, findObject(bucket, name))
    if (!found) throw new Error('an object was looked for without an answer')
    return found
  }

  async readable(who: Identity, bucket: string, name: string): Promise<StoredObject> {
    const found = await this.find(bucket, name)
    requireEntry(found.public, who)
    const object = requireObject(found)
    requireRead(object.public, who, object)
    return object
  }

  /** Called before the body of an upload is read. */
  async requireUpload(who: Identity, bucket: string): Promise<void> {
    requireEntry((await this.find(bucket, '')).public, who)
  }

  /** JSON text: the record. */
  async put(who: Identity, bucket: string, { name: given, contentType, blob }: Upload): Promise<string> {
    const { db, baseUrl, purge, wakePurge } = this.#deps
    if (given === '') throw badRequest('file name is required')
    const name = objectName(given)
    const stored = await db.tx(SYSTEM, async (tx) => {
      await tx.fly(lockName(bucket, name))
      const [before] = await tx.rows<ObjectRow>(findObject(bucket, name, 'for update'))
      if (isThere(before)) {
        requireChange(who, before)
        if (before.public) for (const push of purge(this.urlOf(bucket, name))) await tx.run(push)
      }
      await tx.run(addBlob(blob))
      const owner = { userId: userIdOf(who), appId: appIdOf(who) }
      const object = { bucket, name, encodedName: encodedName(name), blobId: blob.id, ...owner }
      return tx.fly(putObject({ ...object, contentType: contentTypeOf(name, contentType) }, baseUrl()))
    })
    wakePurge()
    return stored ?? ''
  }

  async remove(who: Identity, bucket: string, name: string, headers: Headers): Promise<void> {
    const { db, purge, wakePurge } = this.#deps
    await db.tx(SYSTEM, async (tx) => {
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

const isThere = (object: ObjectRow | undefined): object is StoredObject =>
  object !== undefined && object.blobId !== null
