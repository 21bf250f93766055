import { EMPTY, join, rfc3339, type Sql, sql } from '../../../db/sql.ts'
import type { BucketAccess } from './rights.ts'

const accessOf = (bucket: string): Sql =>
  sql`coalesce((select access from svc.storage_buckets where name = ${bucket}), 'public')`

const FIELDS = sql`'id', o.id, 'bucket', o.bucket, 'name', o.name, 'size', o.size, 'contentType', o.content_type,
  'userId', o.owner, 'createdAt', ${rfc3339(sql`o.created_at`)}, 'updatedAt', ${rfc3339(sql`o.updated_at`)}`

const withMetadata = (fields: Sql): Sql => sql`case when o.metadata = '{}' then pg_catalog.json_build_object(${fields})
  else pg_catalog.json_build_object(${fields}, 'metadata', o.metadata) end`

/** An object `o` as the API shows it. Only objects of public buckets have a `url`. */
export const fileRecord = (isInPublic: Sql, baseUrl: string): Sql => sql`case when ${isInPublic}
  then ${withMetadata(sql`${FIELDS}, 'url', ${baseUrl} || '/' || o.bucket || '/' || o.encoded_name`)}
  else ${closedRecord} end`

/** As `fileRecord`, of an object that has no public address. */
export const closedRecord: Sql = withMetadata(FIELDS)

export type NamePage = {
  bucket: string
  prefix: string
  /** The page begins behind this name. */
  after: string
  limit: number
  offset: number
}

export type Listing = NamePage & {
  /** False: in private buckets only objects of `userId` and objects without owner are listed. */
  seesAll: boolean
  userId: string | null
  baseUrl: string
}

/** Condition on objects `o`: of the bucket, with names that begin with the prefix. */
export function isMatch({ bucket, prefix }: Pick<NamePage, 'bucket' | 'prefix'>): Sql {
  const end = endOfPrefix(prefix)
  return sql`o.bucket = ${bucket} and o.name >= ${prefix} ${end === undefined ? EMPTY : sql`and o.name < ${end}`}`
}

/**
 * {access, body}: the access of the bucket, and the page; policies decide about a page of theirs, so there is none here. Names
 * come in order from an index: of the whole bucket, or the caller's own and those without owner. Only one of the two is
 * run, and only the page's objects are made.
 */
export function listObjects(query: Listing): Sql {
  const { bucket, after, userId, limit, offset } = query
  const visible = [
    sql`(select is_open from bucket)`,
    sql`(select is_private from bucket) and not o.is_operators and o.owner = ${userId}::uuid`,
    sql`(select is_private from bucket) and not o.is_operators and o.owner is null`,
  ].map((isVisible) => sql`from svc.objects o where ${isVisible} and ${isMatch(query)}`)
  const names = visible.map(
    (rows) => sql`(select o.name ${rows} and o.name > ${after} order by o.name limit ${limit + offset}::bigint)`,
  )
  const counts = visible.map((rows) => sql`(select count(*) ${rows})`)
  return sql`
    with bucket as materialized (select access, access = 'public' or ${query.seesAll}::boolean as is_open,
        access = 'private' and not ${query.seesAll}::boolean as is_private
      from (select ${accessOf(bucket)} as access) b)
    select bucket.access, json_build_object('items', (
        select coalesce(json_agg(${fileRecord(sql`bucket.access = 'public'`, query.baseUrl)} order by o.name), '[]') from (
          select name from (${join(names, sql` union all `)}) n order by name limit ${limit}::int offset ${offset}::bigint
        ) page join svc.objects o on o.bucket = ${bucket} and o.name = page.name
      ), 'totalItems', ${join(counts, sql` + `)})::text as body
    from bucket`
}

/** The first text behind all that begin with the prefix, in the order of code points; undefined if there is none. */
function endOfPrefix(prefix: string): string | undefined {
  const points = Array.from(prefix, (char) => char.codePointAt(0) ?? 0)
  while (points.at(-1) === 0x10ffff) points.pop()
  const last = points.pop()
  if (last === undefined) return undefined
  // No text has a surrogate of its own.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1)
}

/** What is known of an object besides its bucket's settings. */
export type ObjectFields = {
  id: string
  blobId: string
  size: number
  sha256: string
  contentType: string
  userId: string | null
  isOperators: boolean
  updatedAt: Date
  /** JSON text. */
  metadata: string
}

export type BucketSettings = {
  /** Null if it has none. */
  bucketId: string | null
  access: BucketAccess
  inline: boolean
  /** Of images; null = no list. */
  sizes: readonly string[] | null
}

/** `blobId` null: there is no such object, and the fields of one are meaningless. */
export type ObjectRow = BucketSettings & Omit<ObjectFields, 'blobId'> & { blobId: string | null }

export type StoredObject = BucketSettings & ObjectFields

const OBJECT = sql`o.id::text as id, o.blob_id::text as "blobId", o.size, o.sha256, o.content_type as "contentType",
  o.owner::text as "userId", o.is_operators as "isOperators", o.updated_at as "updatedAt", o.metadata::text as metadata`

/** Always one row, because the bucket's settings are needed also if there is no such object. */
export const findObject = (bucket: string, name: string, lock: 'for update' | 'no lock' = 'no lock'): Sql => sql`
  select s.id::text as "bucketId", coalesce(s.access, 'public') as access, coalesce(s.inline, false) as inline,
    to_json(s.sizes) as sizes, ${OBJECT}
  from (select) always
  left join svc.storage_buckets s on s.name = ${bucket}
  left join lateral (
    select o.* from svc.objects o
    where o.bucket = ${bucket} and o.name = ${name} ${lock === 'for update' ? sql`for update` : EMPTY}
  ) o on true`

/** ObjectFields, or no row where the current role may not see it. */
export const visibleObject = (bucket: string, name: string): Sql =>
  sql`select ${OBJECT} from svc.objects o where o.bucket = ${bucket} and o.name = ${name}`

/** Serialises writers of one name, so that rights are checked against the row that is replaced. */
export const lockName = (bucket: string, name: string): Sql =>
  sql`select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(${`${bucket}/${name}`}, 15))`

export type BucketState = BucketRules & {
  id: string | null
  access: BucketAccess
  ownerlessBytes: number
  quotaBytes: number | null
  /** What is stored in it, if it has a quota; and what is stored for the caller. */
  bucketBytes: number
  userBytes: number
}

/** Always one row: what an upload to a bucket depends on. `id` is null if it has no settings. */
export const bucketState = (bucket: string, userId: string | null): Sql => sql`
  select s.id::text as id, coalesce(s.access, 'public') as access, o.bytes as "ownerlessBytes", s.max_size as "maxSize",
    to_json(s.allowed_types) as "allowedTypes", s.quota_bytes as "quotaBytes",
    coalesce((select b.bytes from svc.stored_bytes b where b.kind = 'bucket' and b.key = s.name), 0) as "bucketBytes",
    coalesce((select b.bytes from svc.stored_bytes b where b.kind = 'user' and b.key = ${userId}), 0) as "userBytes"
  from svc.ownerless_bytes o left join svc.storage_buckets s on s.name = ${bucket}`

export const requireQuota = (bucket: string, owner: string | null, userQuota: number): Sql =>
  sql`select svc.require_quota(${bucket}, ${owner}::uuid, ${userQuota})`

/** Kept by triggers of svc.objects. */
export const ownerlessBytes: Sql = sql`select bytes::text from svc.ownerless_bytes`

/** Keeps the settings of a bucket as they are until an upload to it is committed. */
export const shareBucket = (bucket: string): Sql =>
  sql`select from svc.storage_buckets where name = ${bucket} for share`

export type BucketRules = { maxSize: number | null; allowedTypes: readonly string[] | null }

export type NewObject = {
  bucket: string
  name: string
  contentType: string
  /** JSON object. */
  metadata: string
  blob: { id: string; size: number; sha256: string }
  userId: string | null
  isOperators: boolean
  /** The app whose usage the bytes count for. */
  appId: string | null
}

/**
 * A second upload of a name keeps its id and its owner; what has none is the operator's once the operator replaces it. Sent
 * after `addBlob`; returns {record, isNew, isOwnerless, owner}.
 */
export const putObject = (object: NewObject, baseUrl: string): Sql =>
  made(
    sql`${insertion(object)}
    on conflict (bucket, name) do update set content_type = excluded.content_type, metadata = excluded.metadata,
      blob_id = excluded.blob_id, size = excluded.size, sha256 = excluded.sha256,
      is_operators = o.is_operators or (excluded.is_operators and o.owner is null), app_id = excluded.app_id, updated_at = now()`,
    object,
    baseUrl,
  )

/** As putObject, and no row where there is one of that name. */
export const addObject = (object: NewObject, baseUrl: string): Sql =>
  made(sql`${insertion(object)} on conflict (bucket, name) do nothing`, object, baseUrl)

const insertion = ({ blob, ...object }: NewObject): Sql => sql`
    insert into svc.objects as o (bucket, name, content_type, metadata, blob_id, size, sha256, owner, is_operators, app_id)
    values (${object.bucket}, ${object.name}, ${object.contentType}, ${object.metadata}::jsonb, ${blob.id}::uuid,
      ${blob.size}, ${blob.sha256}, ${object.userId}::uuid, ${object.isOperators}::boolean, ${object.appId}::uuid)`

const made = (put: Sql, object: NewObject, baseUrl: string): Sql => sql`
  with put as (${put} returning *)
  select ${fileRecord(sql`${accessOf(object.bucket)} = 'public'`, baseUrl)}::text as record,
    o.created_at = o.updated_at as "isNew", o.owner is null and not o.is_operators as "isOwnerless", o.owner::text as owner
  from put o`

export const completeUpload = (id: string): Sql => sql`select svc.complete_upload(${id}::uuid)`

export type MadeObject = { record: string; isNew: boolean; isOwnerless: boolean; owner: string | null }

/** JSON text of the object under its new name. Throws unique_violation where the name is taken. */
export const renameObject = (bucket: string, from: string, to: string, baseUrl: string): Sql => sql`
  with moved as (
    update svc.objects o set name = ${to}, updated_at = now() where o.bucket = ${bucket} and o.name = ${from} returning *
  )
  select ${fileRecord(sql`${accessOf(bucket)} = 'public'`, baseUrl)}::text from moved o`

export const deleteObject = (bucket: string, name: string): Sql =>
  sql`delete from svc.objects where bucket = ${bucket} and name = ${name}`

/** Rows {urls}: all objects of a bucket, a hundred per row, for a purge. */
export const urlsOfBucket = (bucket: string, baseUrl: string): Sql => sql`
  select '' as group_key, jsonb_build_object('urls', jsonb_agg(${baseUrl} || '/' || o.bucket || '/' || o.encoded_name)) as payload
  from (select *, (row_number() over () - 1) / 100 as portion from svc.objects where bucket = ${bucket}) o
  group by o.portion`

export const hasObjects = (bucket: string): Sql => sql`select from svc.objects where bucket = ${bucket} limit 1`

export const deleteObjectsOf = (bucket: string): Sql => sql`delete from svc.objects where bucket = ${bucket}`
