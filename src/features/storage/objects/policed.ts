import { createHash, randomUUID } from 'node:crypto'
import { AppError, notFound } from '../../../core/errors.ts'
import { appIdOf, databaseSession, type Identity, SYSTEM, userIdOf } from '../../../core/identity.ts'
import type { Db } from '../../../db/db.ts'
import { isTrialEnd, isUniqueViolation } from '../../../db/pg-errors.ts'
import type { Sql } from '../../../db/sql.ts'
import { isConditional, preconditionFailed, requireUnchanged } from '../../../http/files/conditions.ts'
import type { Blob } from '../blobs/store.ts'
import { ALL_OBJECTS, listFolders } from './folders-sql.ts'
import * as q from './policed-sql.ts'
import { nameTaken, refusedFile } from './rights.ts'
import { closedRecord, lockName, type NamePage, type ObjectFields, visibleObject } from './sql.ts'

type Headers = Readonly<Record<string, string | undefined>>

/** What becomes an object. */
export type PolicedFile = {
  bucket: string
  /** Of its settings. */
  bucketId: string
  name: string
  contentType: string
  metadata: string
  blob: Blob
  /** As in ReceivedFile. */
  resumed?: { id: string; isStored: boolean }
}

type Deps = {
  db: Db
  /** Signs what the database takes from the server alone. */
  logKey: string
  ownerlessQuota: number
  userQuota: number
  /** Readers of the change log have something to read. */
  wakeLog: () => void
}

/** Of an object, when it was looked at; undefined: it was not there. */
type Seen = { blobId: string | undefined }

/** The policies of the operator may call any function, so their time is bounded and their session cleared. */
const CHECK = { kind: 'slow', timeoutMs: 5_000 } as const

/**
 * Objects of buckets whose access is `policies`, for everyone but the operator. Each statement runs as the caller, so that
 * row-level security judges the very row that is read or written.
 */
export class PolicedObjects {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** What may not be seen is not there. */
  async find(who: Identity, bucket: string, name: string): Promise<ObjectFields> {
    const [found] = await this.#deps.db.rows<ObjectFields>(who, visibleObject(bucket, name), CHECK)
    if (!found) throw notFound('file not found', 'file_not_found')
    return found
  }

  async list(who: Identity, page: NamePage): Promise<string> {
    return (await this.#deps.db.fly(who, q.listVisible(page), CHECK)) ?? ''
  }

  /** Before a body is read whose name is not known yet: without a policy for uploads nothing can come of it. */
  async requireAnyUpload(who: Identity): Promise<void> {
    const { role } = databaseSession(who)
    if ((await this.#deps.db.fly(SYSTEM, q.anyUploadPolicy(role))) !== 'true') throw refusedFile()
  }

  /** The record of what was uploaded is JSON text, also where the caller may not read it. */
  async put(who: Identity, file: PolicedFile, conditions: Headers): Promise<{ record: string; isNew: boolean }> {
    const { bucket, name } = file
    const seen = isConditional(conditions) ? await this.#seen(who, bucket, name, conditions) : undefined
    const stored = await this.#write(who, [...this.#putting(who, file, seen), q.storedRecord(bucket, name)])
    if (stored === null) {
      if (seen && (await this.#seen(who, bucket, name, conditions)).blobId !== seen.blobId) throw preconditionFailed()
      // Neither inserted nor replaced: it is there, and may not be changed.
      throw refusedFile()
    }
    return JSON.parse(stored) as { record: string; isNew: boolean }
  }

  /** Whether an upload would be allowed: its statements, undone. */
  async tryPut(
    who: Identity,
    file: Pick<PolicedFile, 'bucket' | 'bucketId' | 'name' | 'contentType'> & { size: number; uploadId?: string },
  ): Promise<void> {
    const { bucket, name, size, uploadId } = file
    const blob = { id: randomUUID(), size, sha256: '' }
    const resumed = uploadId === undefined ? {} : { resumed: { id: uploadId, isStored: false } }
    const trial = { ...file, metadata: '{}', blob, ...resumed }
    try {
      await this.#write(who, [...this.#putting(who, trial), q.endTrial(bucket, name)])
    } catch (error) {
      if (isTrialEnd(error)) return
      throw error
    }
    throw refusedFile()
  }

  /** The bytes that conditions were held against; they must be the same when the file is written. */
  async #seen(who: Identity, bucket: string, name: string, conditions: Headers): Promise<Seen> {
    const [now] = await this.#deps.db.rows<ObjectFields>(who, visibleObject(bucket, name), CHECK)
    requireUnchanged(conditions, now && { etag: `"${now.sha256}"`, modifiedAt: now.updatedAt })
    return { blobId: now?.blobId }
  }

  #putting(who: Identity, file: PolicedFile, seen?: Seen): [Sql, ...Sql[]] {
    const mayReplace = seen === undefined || seen.blobId !== undefined
    const mayInsert = seen?.blobId === undefined
    return [
      lockName(file.bucket, file.name),
      this.#announce(who, file, !file.resumed?.isStored),
      ...(mayReplace ? [q.replaceVisible(file, seen?.blobId)] : []),
      ...(mayInsert ? [q.insertUnlessVisible(file)] : []),
    ]
  }

  /** JSON text: the record. */
  async move(who: Identity, bucket: string, from: string, to: string): Promise<string> {
    await this.find(who, bucket, from)
    if (from === to) throw nameTaken()
    const moved = await this.#write(who, [q.renameVisible(bucket, from, to)], nameTaken)
    if (moved !== null) return moved
    await this.find(who, bucket, from)
    throw refusedFile()
  }

  /** JSON text: the record of a new object with bytes that are there. */
  async copy(who: Identity, file: PolicedFile): Promise<string> {
    const { bucket, name } = file
    const statements = [lockName(bucket, name), this.#announce(who, file, false), q.insertUnlessVisible(file)] as const
    const stored = await this.#write(who, [...statements, q.storedRecord(bucket, name)], nameTaken)
    if (stored === null) throw nameTaken()
    return (JSON.parse(stored) as { record: string }).record
  }

  /** JSON text: {items, folders, totalItems}. */
  async folders(who: Identity, page: NamePage): Promise<string> {
    return (await this.#deps.db.fly(who, listFolders(page, ALL_OBJECTS, closedRecord), CHECK)) ?? ''
  }

  rows<T extends object>(who: Identity, statement: Sql): Promise<T[]> {
    return this.#deps.db.rows<T>(who, statement, CHECK)
  }

  async remove(who: Identity, bucket: string, name: string, headers: Headers): Promise<void> {
    const { id, sha256, updatedAt, blobId } = await this.find(who, bucket, name)
    requireUnchanged(headers, { etag: `"${sha256}"`, modifiedAt: updatedAt })
    if ((await this.#write(who, [q.deleteVisible(id, isConditional(headers) ? blobId : null)])) !== null) return
    const now = await this.find(who, bucket, name)
    requireUnchanged(headers, { etag: `"${now.sha256}"`, modifiedAt: now.updatedAt })
    throw refusedFile()
  }

  /** The server's word about the bytes of an object, for svc.guard_object(). */
  #announce(who: Identity, { bucket, bucketId, name, blob, resumed }: PolicedFile, isNew: boolean): Sql {
    const { logKey, ownerlessQuota, userQuota } = this.#deps
    const { id, size, sha256 } = blob
    const upload = JSON.stringify({
      ...{ kind: 'upload', bucket, bucketId, name, isNew, blob: id, size, sha256, ownerlessQuota, userQuota },
      ...{ owner: userIdOf(who), app: appIdOf(who), uploadId: resumed?.id },
    })
    const seal = createHash('sha256').update(`${logKey}.${upload}.${logKey}`).digest('hex')
    return q.announce(`${seal} ${upload}`)
  }

  /** The value of the last statement. What PostgreSQL refuses, also because a hidden object has the name, is one refusal. */
  async #write(
    who: Identity,
    statements: readonly [Sql, ...Sql[]],
    ifTaken: () => AppError = refusedFile,
  ): Promise<string | null> {
    const { db, wakeLog } = this.#deps
    try {
      const values = await db.fly(who, statements, CHECK)
      wakeLog()
      return values.at(-1) ?? null
    } catch (error) {
      if (isUniqueViolation(error)) throw ifTaken()
      const isRefusal = error instanceof AppError && error.errorCode === 'insufficient_privilege'
      throw isRefusal ? refusedFile() : error
    }
  }
}
