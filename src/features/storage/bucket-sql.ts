import { EMPTY, rfc3339, type Sql, sql } from '../../db/sql.ts'
import type { BucketAccess } from './objects/rights.ts'

const BUCKET = sql`json_strip_nulls(json_build_object('id', s.id, 'name', s.name, 'access', s.access, 'public', s.access = 'public',
  'inline', s.inline, 'quota_bytes', s.quota_bytes, 'max_size', s.max_size, 'allowed_types', s.allowed_types,
  'sizes', s.sizes, 'createdAt', ${rfc3339(sql`s.created_at`)}, 'updatedAt', ${rfc3339(sql`s.updated_at`)}))`

/** A step of the index for each bucket, however many files it has. */
const BUCKETS_WITH_FILES = sql`with recursive used(name) as (
  (select o.bucket from svc.objects o order by o.bucket limit 1)
  union all
  select (select o.bucket from svc.objects o where o.bucket > used.name order by o.bucket limit 1) from used
    where used.name is not null)`

export const allBuckets: Sql = sql`${BUCKETS_WITH_FILES} select json_build_object(
  'items', (select coalesce(json_agg(${BUCKET} order by s.name), '[]') from svc.storage_buckets s),
  'without_settings', (select coalesce(json_agg(name order by name), '[]') from (select name from used
    where name is not null and name not like '\\_svc%'
      and not exists (select from svc.storage_buckets s where s.name = used.name) limit 1000) plain))::text`

export const oneBucket = (name: string): Sql =>
  sql`select ${BUCKET}::text from svc.storage_buckets s where s.name = ${name}`

/** Undefined: as it was; null: none. */
export type BucketChange = {
  access?: BucketAccess | undefined
  inline?: boolean | undefined
  quota_bytes?: number | null | undefined
  max_size?: number | null | undefined
  allowed_types?: readonly string[] | null | undefined
  sizes?: readonly string[] | null | undefined
}

/** No row if the bucket exists already. */
export const addBucket = (name: string, bucket: BucketChange): Sql => sql`
  insert into svc.storage_buckets as s (name, access, inline, quota_bytes, max_size, allowed_types, sizes)
  values (${name}, ${bucket.access ?? 'public'}, ${bucket.inline ?? false}, ${bucket.quota_bytes ?? null}::bigint,
    ${bucket.max_size ?? null}::bigint, ${bucket.allowed_types ?? null}::text[], ${bucket.sizes ?? null}::text[])
  on conflict (name) do nothing returning ${BUCKET}::text as record`

export const changeBucket = (name: string, change: BucketChange): Sql => sql`
  update svc.storage_buckets s set access = coalesce(${change.access ?? null}, s.access),
    inline = coalesce(${change.inline ?? null}, s.inline),
    ${change.quota_bytes === undefined ? EMPTY : sql`quota_bytes = ${change.quota_bytes}::bigint,`}
    ${change.max_size === undefined ? EMPTY : sql`max_size = ${change.max_size}::bigint,`}
    ${change.sizes === undefined ? EMPTY : sql`sizes = ${change.sizes}::text[],`}
    ${change.allowed_types === undefined ? EMPTY : sql`allowed_types = ${change.allowed_types}::text[],`} updated_at = now()
  where s.name = ${name} returning ${BUCKET}::text as record`

/** Of a bucket whose quota is set: counted once, then kept by triggers. */
export const countBucket = (name: string): Sql => sql`select svc.count_bucket(${name})`

export const accessBefore = (name: string): Sql =>
  sql`select access from svc.storage_buckets where name = ${name} for update`

export const lockBucket = (name: string): Sql => sql`select from svc.storage_buckets where name = ${name} for update`

export const deleteBucket = (name: string): Sql => sql`delete from svc.storage_buckets where name = ${name}`
