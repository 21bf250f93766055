import { AppError } from '../../../core/errors.ts'
import { appIdOf, type Identity, onBehalfOf, userIdOf } from '../../../core/identity.ts'
import { isUniqueViolation } from '../../../db/pg-errors.ts'
import { type Objects, type ObjectsDeps, requireObject } from './objects.ts'
import { isPoliced, nameTaken, refusedFile, requireChange, requireEntry } from './rights.ts'
import { requireRules } from './rules.ts'
import {
  addObject,
  findObject,
  lockName,
  type MadeObject,
  type ObjectRow,
  ownerlessBytes,
  renameObject,
  requireQuota,
  shareBucket,
} from './sql.ts'

/** A file under another name of its bucket, as itself or as a copy; never onto one that is there. */
export class Moving {
  readonly #deps: ObjectsDeps
  readonly #objects: Objects

  constructor(deps: ObjectsDeps, objects: Objects) {
    this.#deps = deps
    this.#objects = objects
  }

  /** JSON text: the record. */
  async move(who: Identity, bucket: string, from: string, to: string): Promise<string> {
    const { db, baseUrl, policed, purge, wakePurge, wakeLog } = this.#deps
    const { access } = await this.#objects.target(who, bucket)
    if (isPoliced(access, who)) return policed.move(who, bucket, from, to)
    try {
      const moved = await db.tx(onBehalfOf(who), async (tx) => {
        // In one order, so that two moves never wait for each other.
        await tx.fly([...[from, to].sort().map((name) => lockName(bucket, name)), shareBucket(bucket)])
        const [found] = await tx.rows<ObjectRow>(findObject(bucket, from, 'for update'))
        if (isPoliced(found?.access ?? 'public', who)) throw refusedFile()
        requireEntry(found?.access ?? 'public', who)
        const object = requireObject(found)
        requireChange(who, object)
        if (from === to) throw nameTaken()
        const record = await tx.fly(renameObject(bucket, from, to, baseUrl()))
        if (object.access === 'public') for (const push of purge(this.#objects.urlOf(bucket, from))) await tx.run(push)
        return record ?? ''
      })
      wakePurge()
      wakeLog()
      return moved
    } catch (error) {
      throw isUniqueViolation(error) ? nameTaken() : error
    }
  }

  /** The copy is the caller's. The bytes are shared until one of the two is replaced. */
  async copy(who: Identity, bucket: string, from: string, to: string): Promise<string> {
    const { db, baseUrl, policed, wakeLog, userQuota, ownerlessQuota } = this.#deps
    const target = await this.#objects.target(who, bucket)
    const source = await this.#objects.readable(who, bucket, from)
    const { contentType, metadata, size, sha256, blobId } = source
    requireRules(target, contentType, size)
    const file = { bucket, name: to, contentType, metadata, blob: { id: blobId, size, sha256 } }
    if (isPoliced(target.access, who)) return policed.copy(who, { ...file, bucketId: target.id ?? '' })
    const copied = await db.tx(onBehalfOf(who), async (tx) => {
      await tx.fly([lockName(bucket, to), shareBucket(bucket)])
      const [found] = await tx.rows<ObjectRow>(findObject(bucket, from))
      // Its rights, or its bytes, may be others by now.
      if (found?.access !== target.access || found.blobId !== blobId) requireObject(undefined)
      const owner = { userId: userIdOf(who), isOperators: who.kind === 'admin', appId: appIdOf(who) }
      const [made] = await tx.rows<MadeObject>(addObject({ ...file, ...owner }, baseUrl()))
      if (!made) throw nameTaken()
      if (made.isOwnerless && Number(await tx.fly(ownerlessBytes)) > ownerlessQuota)
        throw new AppError('insufficient_storage', 'insufficient storage')
      await tx.run(requireQuota(bucket, made.owner, who.kind === 'admin' ? 0 : userQuota))
      return made.record
    })
    wakeLog()
    return copied
  }
}
