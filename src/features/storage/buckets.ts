import { AppError, badRequest, found, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { audited, auditStatement, before, MADE_RECORD } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { jsonText, noContent, type Route, route } from '../../http/route.ts'
import {
  accessBefore,
  addBucket,
  allBuckets,
  changeBucket,
  countBucket,
  deleteBucket,
  lockBucket,
  oneBucket,
} from './bucket-sql.ts'
import { SIZE } from './images/parameters.ts'
import { bucketName } from './objects/names.ts'
import { BUCKET_ACCESS, type BucketAccess } from './objects/rights.ts'
import { deleteObjectsOf, hasObjects } from './objects/sql.ts'

const bucket = t.object({
  id: t.uuid(),
  name: t.string(),
  access: t.oneOf(BUCKET_ACCESS),
  public: t.boolean(),
  inline: t.boolean(),
  quota_bytes: t.optional(t.integer()),
  max_size: t.optional(t.integer()),
  allowed_types: t.optional(t.array(t.string())),
  sizes: t.optional(t.array(t.string())),
  createdAt: t.time(),
  updatedAt: t.time(),
})

const settings = {
  access: t.optional(t.oneOf(BUCKET_ACCESS)),
  public: t.optional(t.boolean({ description: 'true: access public; false: private' })),
  inline: t.optional(t.boolean()),
  quota_bytes: t.optional(t.nullable(t.integer({ minimum: 0, description: 'bytes of all its files' }))),
  max_size: t.optional(t.nullable(t.integer({ minimum: 0, description: 'bytes of a file' }))),
  allowed_types: t.optional(
    t.nullable(t.array(t.string(), { description: 'such as image/png or image/*', maxItems: 100 })),
  ),
  sizes: t.optional(t.nullable(t.array(t.string(), { description: 'of images: 320 (width), 640x480', maxItems: 100 }))),
}

const TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]*\/(?:\*|[a-z0-9][a-z0-9!#$&^_.+-]*)$/

type Rules = { allowed_types?: readonly string[] | null; sizes?: readonly string[] | null }

function requireGoodRules({ allowed_types: types, sizes }: Rules): void {
  for (const size of sizes ?? []) if (!SIZE.test(size)) throw badRequest(`invalid size: ${size}`)
  for (const type of types ?? [])
    if (type.length > 255 || !TYPE.test(type)) throw badRequest(`invalid content type: ${type}`)
}

type Given = { access?: BucketAccess; public?: boolean }

/** `public` is short for two of the three. */
function accessIn({ access, public: isOpen }: Given, now?: BucketAccess): BucketAccess | undefined {
  if (isOpen === undefined) return access
  if (access !== undefined) throw badRequest('choose one of access, public')
  if (now === 'policies') throw badRequest('public is not for buckets whose access is policies: send access')
  return isOpen ? 'public' : 'private'
}

/** Settings of buckets; the defaults are public and not inline. */
export function bucketRoutes(deps: {
  db: Db
  /** Statements that purge the addresses of all objects of a bucket. */
  purgeBucket: (bucket: string) => readonly Sql[]
  wakePurge: () => void
  requires: () => void
}): Route[] {
  const { db, purgeBucket, wakePurge, requires } = deps
  const admin = { auth: 'admin', requires } as const
  return [
    route('GET /api/admin/storage/buckets', {
      summary: 'Buckets with settings of their own, and names of others that hold files',
      leastRole: 'viewer',
      ...admin,
      answers: { 200: t.object({ items: t.array(bucket), without_settings: t.array(t.string()) }) },
      handle: async () => jsonText(200, (await db.fly(SYSTEM, allBuckets)) ?? ''),
    }),
    route('POST /api/admin/storage/buckets', {
      summary: 'Set a bucket up',
      leastRole: 'operator',
      ...admin,
      audit: 'bucket.create',
      body: t.object({ name: t.string(), ...settings }),
      answers: { 201: bucket },
      handle: async (call) => {
        const { body } = call
        const name = bucketName(body.name)
        requireGoodRules(body)
        const addition = addBucket(name, { ...body, access: accessIn(body) })
        const adding = audited(call.audit({ target: name }), addition, { newValues: MADE_RECORD.newValues })
        const made = await db.tx(SYSTEM, async (tx) => {
          const record = await tx.fly(adding)
          // Files may be there already: a bucket needs no settings.
          if (record !== null && body.quota_bytes !== undefined && body.quota_bytes !== null)
            await tx.run(countBucket(name))
          return record
        })
        if (made === null) throw new AppError('already_exists', 'bucket already exists')
        return jsonText(201, made)
      },
    }),
    route('PUT /api/admin/storage/buckets/{name}', {
      summary: 'Change the settings of a bucket',
      leastRole: 'operator',
      ...admin,
      audit: 'bucket.update',
      body: t.object(settings),
      answers: { 200: bucket },
      handle: async (call) => {
        const { body } = call
        const name = bucketName(call.params.name)
        const changed = await db.tx(SYSTEM, async (tx) => {
          const now = (await tx.fly(accessBefore(name))) as BucketAccess | null
          if (now === null) throw notFound('bucket not found', 'bucket_not_found')
          requireGoodRules(body)
          const access = accessIn(body, now)
          // Objects that anyone could read must leave the caches.
          if (now === 'public' && access !== undefined && access !== 'public')
            for (const purge of purgeBucket(name)) await tx.run(purge)
          const change = changeBucket(name, { ...body, access })
          const noted = { newValues: MADE_RECORD.newValues, ...before(oneBucket(name)) }
          const record = await tx.fly(audited(call.audit({ target: name }), change, noted))
          if (body.quota_bytes !== undefined && body.quota_bytes !== null) await tx.run(countBucket(name))
          return found(record, 'bucket not found', 'bucket_not_found')
        })
        wakePurge()
        return jsonText(200, changed)
      },
    }),
    route('DELETE /api/admin/storage/buckets/{name}', {
      summary: 'Forget the settings of a bucket, with force its objects too',
      leastRole: 'operator',
      ...admin,
      audit: 'bucket.delete',
      query: { force: t.boolean() },
      answers: { 204: null },
      handle: async (call) => {
        const name = bucketName(call.params.name)
        await db.tx(SYSTEM, async (tx) => {
          if ((await tx.run(lockBucket(name))) === 0) throw notFound('bucket not found', 'bucket_not_found')
          if (call.query['force'] === 'true') {
            for (const purge of purgeBucket(name)) await tx.run(purge)
            await tx.run(deleteObjectsOf(name))
          } else if ((await tx.run(hasObjects(name))) > 0) {
            throw new AppError('bucket_not_empty', 'bucket has objects; use force=true to delete')
          }
          await tx.run(auditStatement(call.audit({ target: name }), before(oneBucket(name))))
          await tx.run(deleteBucket(name))
        })
        wakePurge()
        return noContent
      },
    }),
  ]
}
