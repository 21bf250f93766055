import { rfc3339, type Sql, sql } from '../../db/sql.ts'
import type { BucketAccess } from './rights.ts'

const BUCKET = sql`json_build_object('id', s.id, 'name', s.name, 'access', s.access, 'public', s.access = 'public',
  'inline', s.inline, 'createdAt', ${rfc3339(sql`s.created_at`)}, 'updatedAt', ${rfc3339(sql`s.updated_at`)})`

export const allBuckets: Sql = sql`
  select json_build_object('items', coalesce(json_agg(${BUCKET} order by s.name), '[]'))::text from svc.storage_buckets s`

export const oneBucket = (name: string): Sql =>
  sql`select ${BUCKET}::text from svc.storage_buckets s where s.name = ${name}`

export type BucketChange = { access?: BucketAccess; inline?: boolean }

/** No row if the bucket exists already. */
export const addBucket = (name: string, { access = 'public', inline = false }: BucketChange): Sql => sql`
  insert into svc.storage_buckets as s (name, access, inline) values (${name}, ${access}, ${inline})
  on conflict (name) do nothing returning ${BUCKET}::text as record`

export const changeBucket = (name: string, change: BucketChange): Sql => sql`
  update svc.storage_buckets s set access = coalesce(${change.access ?? null}, s.access),
    inline = coalesce(${change.inline ?? null}, s.inline), updated_at = now()
  where s.name = ${name} returning ${BUCKET}::text as record`

export const accessBefore = (name: string): Sql =>
  sql`select access from svc.storage_buckets where name = ${name} for update`

export const lockBucket = (name: string): Sql => sql`select from svc.storage_buckets where name = ${name} for update`

export const deleteBucket = (name: string): Sql => sql`delete from svc.storage_buckets where name = ${name}`
