import { createHash } from 'node:crypto'
import { AppError, notFound } from '../../core/errors.ts'
import { appIdOf, databaseSession, type Identity, SYSTEM, userIdOf } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { requireMatch } from '../../http/files/conditions.ts'
import type { Blob } from './blobs/store.ts'
import * as q from './policed-sql.ts'
import { refusedFile } from './rights.ts'
import { lockName, type NamePage, type ObjectFields, visibleObject } from './sql.ts'

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
}

type Deps = {
  db: Db
  /** Signs what the database takes from the server alone. */
  logKey: string
  ownerlessQuota: number
  /** Readers of the change log have something to read. */
  wakeLog: () => void
}

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

  /** JSON text: the record of what was uploaded, also where the caller may not read it. */
  async put(who: Identity, file: PolicedFile): Promise<string> {
    const { bucket, name } = file
    const stored = await this.#write(who, [
      lockName(bucket, name),
      this.#announce(who, file, true),
      q.replaceVisible(file),
      q.insertUnlessVisible(file),
      q.storedRecord(bucket, name),
    ])
    // Neither inserted nor replaced: it is there, and may not be changed.
    if (stored === null) throw refusedFile()
    return stored
  }

  async remove(who: Identity, bucket: string, name: string, headers: Headers): Promise<void> {
    const { id, sha256, updatedAt, blobId } = await this.find(who, bucket, name)
    requireMatch(headers, { etag: `"${sha256}"`, modifiedAt: updatedAt })
    const isConditional = headers['if-match'] !== undefined
    if ((await this.#write(who, [q.deleteVisible(id, isConditional ? blobId : null)])) !== null) return
    const now = await this.find(who, bucket, name)
    requireMatch(headers, { etag: `"${now.sha256}"`, modifiedAt: now.updatedAt })
    throw refusedFile()
  }

  /** The server's word about the bytes of an object, for svc.guard_object(). */
  #announce(who: Identity, { bucket, bucketId, name, blob }: PolicedFile, isNew: boolean): Sql {
    const { logKey, ownerlessQuota } = this.#deps
    const { id, size, sha256 } = blob
    const upload = JSON.stringify({
      ...{ kind: 'upload', bucket, bucketId, name, isNew, blob: id, size, sha256, ownerlessQuota },
      ...{ owner: userIdOf(who), app: appIdOf(who) },
    })
    const seal = createHash('sha256').update(`${logKey}.${upload}.${logKey}`).digest('hex')
    return q.announce(`${seal} ${upload}`)
  }

  /** The value of the last statement. What PostgreSQL refuses, also because a hidden object has the name, is one refusal. */
  async #write(who: Identity, statements: readonly [Sql, ...Sql[]]): Promise<string | null> {
    const { db, wakeLog } = this.#deps
    try {
      const values = await db.fly(who, statements, CHECK)
      wakeLog()
      return values.at(-1) ?? null
    } catch (error) {
      const isRefusal = error instanceof AppError && REFUSALS.has(error.errorCode)
      throw isRefusal ? refusedFile() : error
    }
  }
}

const REFUSALS: ReadonlySet<string> = new Set(['insufficient_privilege', 'unique_violation'])
