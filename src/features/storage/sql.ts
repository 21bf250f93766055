import { EMPTY, join, rfc3339, type Sql, sql } from '../../db/sql.ts'

const isPublic = (bucket: string): Sql =>
  sql`coalesce((select public from svc.storage_buckets where name = ${bucket}), true)`

const FIELDS = sql`'id', o.id, 'bucket', o.bucket, 'name', o.name, 'size', b.size, 'contentType', o.content_type,
  'userId', o.user_id, 'createdAt', ${rfc3339(sql`o.created_at`)}, 'updatedAt', ${rfc3339(sql`o.updated_at`)}`

/** An object as the API shows it. Objects of private buckets have no `url`. */
const record = (isInPublic: Sql, baseUrl: string): Sql => sql`case when ${isInPublic}
  then json_build_object(${FIELDS}, 'url', ${baseUrl} || '/' || o.bucket || '/' || o.encoded_name)
  else json_build_object(${FIELDS}) end`

export type Listing = {
  bucket: string
  prefix: string
  /** The page begins behind this name. */
  after: string
  limit: number
  offset: number
  /** False: in private buckets only objects of `userId` and objects without owner are listed. */
  seesAll: boolean
  userId: string | null
  baseUrl: string
}

/**
 * {public, body}: whether the bucket is public, and the page. Names come in order from an index: of the whole bucket, or
 * the caller's own and those without owner. Only one of the two is run, and only the page's objects are made.
 */
export function listObjects(query: Listing): Sql {
  const { bucket, prefix, after, userId, limit, offset } = query
  const end = endOfPrefix(prefix)
  const isMatch = sql`o.bucket = ${bucket} and o.name >= ${prefix} ${end === undefined ? EMPTY : sql`and o.name < ${end}`}`
  const visible = [
    sql`(select is_open from bucket)`,
    sql`not (select is_open from bucket) and not o.is_operators and o.user_id = ${userId}::uuid`,
    sql`not (select is_open from bucket) and not o.is_operators and o.user_id is null`,
  ].map((isVisible) => sql`from svc.storage_objects o where ${isVisible} and ${isMatch}`)
  const names = visible.map(
    (rows) => sql`(select o.name ${rows} and o.name > ${after} order by o.name limit ${limit + offset}::bigint)`,
  )
  const counts = visible.map((rows) => sql`(select count(*) ${rows})`)
  return sql`
    with bucket as materialized (select public, public or ${query.seesAll}::boolean as is_open
      from (select ${isPublic(bucket)} as public) b)
    select bucket.public, json_build_object('items', (
        select coalesce(json_agg(${record(sql`bucket.public`, query.baseUrl)} order by o.name), '[]') from (
          select name from (${join(names, sql` union all `)}) n order by name limit ${limit}::int offset ${offset}::bigint
        ) page join svc.storage_objects o on o.bucket = ${bucket} and o.name = page.name join svc.blobs b on b.id = o.blob_id
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

export type ObjectRow = {
  /** Of the settings of its bucket, if it has any. */
  bucketId: string | null
  public: boolean
  inline: boolean
  id: string
  /** Null: there is no such object, and the fields below are meaningless. */
  blobId: string | null
  size: number
  sha256: string
  contentType: string
  userId: string | null
  isOperators: boolean
  updatedAt: Date
}

export type StoredObject = ObjectRow & { blobId: string }

/** Always one row, because the bucket's settings are needed also if there is no such object. */
export const findObject = (bucket: string, name: string, lock: 'for update' | 'no lock' = 'no lock'): Sql => sql`
  select s.id::text as "bucketId", coalesce(s.public, true) as public, coalesce(s.inline, false) as inline,
    o.id::text as id, o.blob_id::text as "blobId", o.size, o.sha256, o.content_type as "contentType",
    o.user_id::text as "userId", o.is_operators as "isOperators", o.updated_at as "updatedAt"
  from (select) always
  left join svc.storage_buckets s on s.name = ${bucket}
  left join lateral (
    select o.*, b.size, b.sha256 from svc.storage_objects o join svc.blobs b on b.id = o.blob_id
    where o.bucket = ${bucket} and o.name = ${name} ${lock === 'for update' ? sql`for update of o` : EMPTY}
  ) o on true`

/** Serialises writers of one name, so that rights are checked against the row that is replaced. */
export const lockName = (bucket: string, name: string): Sql =>
  sql`select pg_advisory_xact_lock(hashtextextended(${`${bucket}/${name}`}, 15))`

export type BucketState = { id: string | null; public: boolean; ownerlessBytes: number }

/** Always one row: what an upload to a bucket depends on. `id` is null if it has no settings. */
export const bucketState = (bucket: string): Sql => sql`
  select s.id::text as id, coalesce(s.public, true) as public, o.bytes as "ownerlessBytes"
  from svc.ownerless_bytes o left join svc.storage_buckets s on s.name = ${bucket}`

/** Kept by triggers of svc.storage_objects. */
export const ownerlessBytes: Sql = sql`select bytes::text from svc.ownerless_bytes`

/** Keeps the settings of a bucket as they are until an upload to it is committed. */
export const shareBucket = (bucket: string): Sql =>
  sql`select from svc.storage_buckets where name = ${bucket} for share`

export type NewObject = {
  bucket: string
  name: string
  encodedName: string
  contentType: string
  blobId: string
  userId: string | null
  isOperators: boolean
  /** The app whose usage the bytes count for. */
  appId: string | null
}

/**
 * A second upload of a name keeps its id and its owner; what has none is the operator's once the operator replaces it. Sent
 * after `addBlob`; returns {record, isOwnerless}.
 */
export const putObject = (object: NewObject, baseUrl: string): Sql => sql`
  with put as (
    insert into svc.storage_objects as o (bucket, name, encoded_name, content_type, blob_id, user_id, is_operators,
      app_id)
    values (${object.bucket}, ${object.name}, ${object.encodedName}, ${object.contentType}, ${object.blobId}::uuid,
      ${object.userId}::uuid, ${object.isOperators}::boolean, ${object.appId}::uuid)
    on conflict (bucket, name) do update set content_type = excluded.content_type, blob_id = excluded.blob_id,
      is_operators = o.is_operators or (excluded.is_operators and o.user_id is null), app_id = excluded.app_id, updated_at = now()
    returning *
  )
  select ${record(isPublic(object.bucket), baseUrl)}::text as record, o.user_id is null and not o.is_operators as "isOwnerless"
  from put o join svc.blobs b on b.id = o.blob_id`

export const deleteObject = (bucket: string, name: string): Sql =>
  sql`delete from svc.storage_objects where bucket = ${bucket} and name = ${name}`

/** Rows {urls}: all objects of a bucket, a hundred per row, for a purge. */
export const urlsOfBucket = (bucket: string, baseUrl: string): Sql => sql`
  select '' as group_key, jsonb_build_object('urls', jsonb_agg(${baseUrl} || '/' || o.bucket || '/' || o.encoded_name)) as payload
  from (select *, (row_number() over () - 1) / 100 as portion from svc.storage_objects where bucket = ${bucket}) o
  group by o.portion`

const BUCKET = sql`json_build_object('id', s.id, 'name', s.name, 'public', s.public, 'inline', s.inline,
  'createdAt', ${rfc3339(sql`s.created_at`)}, 'updatedAt', ${rfc3339(sql`s.updated_at`)})`

export const allBuckets: Sql = sql`
  select json_build_object('items', coalesce(json_agg(${BUCKET} order by s.name), '[]'))::text from svc.storage_buckets s`

export const oneBucket = (name: string): Sql =>
  sql`select ${BUCKET}::text from svc.storage_buckets s where s.name = ${name}`

/** No row if the bucket exists already. */
export const addBucket = (name: string, isOpen: boolean, inline: boolean): Sql => sql`
  insert into svc.storage_buckets as s (name, public, inline) values (${name}, ${isOpen}, ${inline})
  on conflict (name) do nothing returning ${BUCKET}::text as record`

export const changeBucket = (name: string, change: { public?: boolean; inline?: boolean }): Sql => sql`
  update svc.storage_buckets s set public = coalesce(${change.public ?? null}, s.public),
    inline = coalesce(${change.inline ?? null}, s.inline), updated_at = now()
  where s.name = ${name} returning ${BUCKET}::text as record`

export const lockBucket = (name: string): Sql => sql`select from svc.storage_buckets where name = ${name} for update`

export const hasObjects = (bucket: string): Sql => sql`select from svc.storage_objects where bucket = ${bucket} limit 1`

export const deleteObjectsOf = (bucket: string): Sql => sql`delete from svc.storage_objects where bucket = ${bucket}`

export const deleteBucket = (name: string): Sql => sql`delete from svc.storage_buckets where name = ${name}`
