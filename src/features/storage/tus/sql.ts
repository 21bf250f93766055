import { type Sql, sql } from '../../../db/sql.ts'
import type { Blob } from '../blobs/store.ts'

export type UploadRow = {
  id: string
  bucket: string
  bucketId: string | null
  name: string
  contentType: string
  length: number
  received: number
  metadata: string
  isComplete: boolean
  isExpired: boolean
  expiresAt: Date
}

const ROW = sql`u.id::text as id, u.bucket, u.bucket_id::text as "bucketId", u.name, u.content_type as "contentType", u.length,
  u.received, u.metadata, u.completed_at is not null as "isComplete", u.expires_at < now() as "isExpired", u.expires_at as "expiresAt"`

export type NewUpload = {
  id: string
  bucket: string
  bucketId: string | null
  name: string
  contentType: string
  creator: string
  userId: string | null
  isOperators: boolean
  length: number
  metadata: string
}

const inSeconds = (seconds: number): Sql => sql`now() + make_interval(secs => ${seconds}::float8)`

export const addUpload = (u: NewUpload, seconds: number): Sql => sql`
  insert into svc.uploads as u (id, bucket, bucket_id, name, content_type, creator, owner, is_operators, length, size, metadata, expires_at)
  values (${u.id}::uuid, ${u.bucket}, ${u.bucketId}::uuid, ${u.name}, ${u.contentType}, ${u.creator}, ${u.userId}::uuid,
    ${u.isOperators}, ${u.length}, ${u.length}, ${u.metadata}, ${inSeconds(seconds)})
  returning ${ROW}`

export const countOpen = (creator: string): Sql => sql`
  select count(*)::text from (select from svc.uploads u where u.creator = ${creator} and u.completed_at is null limit 1001) o`

/** What has yet to come of all uploads. */
export const awaitedBytes: Sql = sql`select coalesce(sum(u.length - u.received), 0)::text from svc.uploads u where u.completed_at is null`

export const findUpload = (id: string, bucket: string, creator: string): Sql =>
  sql`select ${ROW} from svc.uploads u where u.id = ${id}::uuid and u.bucket = ${bucket} and u.creator = ${creator}`

/** Makes the request the only one that adds parts; no row unless it goes on where the upload ends. */
export const takeUpload = (id: string, writer: string, offset: number): Sql => sql`
  update svc.uploads u set writer = ${writer}::uuid where u.id = ${id}::uuid and u.received = ${offset} and u.completed_at is null
  returning u.parts`

/** Of an upload; clients that send a byte at a time must begin again. */
export const MAX_PARTS = 10_000

/** Parts one behind the other, all or none: the new offset, or no row if another request has taken over. */
export const addParts = (id: string, writer: string, start: number, blobs: readonly Blob[], seconds: number): Sql => {
  const size = blobs.reduce((sum, blob) => sum + blob.size, 0)
  const starts = blobs.map((_, i) => blobs.slice(0, i).reduce((sum, blob) => sum + blob.size, start))
  return sql`
    with moved as (
      update svc.uploads u set received = u.received + ${size}::bigint, parts = u.parts + ${blobs.length}::int,
        expires_at = ${inSeconds(seconds)}
      where u.id = ${id}::uuid and u.writer = ${writer}::uuid and u.received = ${start} and u.completed_at is null
        and u.parts + ${blobs.length}::int <= ${MAX_PARTS}
      returning u.id, u.received
    ), part as (
      select moved.id, p.* from moved cross join rows from (unnest(${blobs.map((blob) => blob.id)}::uuid[]),
        unnest(${blobs.map((blob) => blob.size)}::bigint[]), unnest(${blobs.map((blob) => blob.sha256)}::text[]),
        unnest(${starts}::bigint[])) as p(blob, size, sha256, start)
    ), stored as (
      insert into svc.blobs (id, size, sha256) select part.blob, part.size, part.sha256 from part returning id
    ), kept as (
      insert into svc.upload_parts (upload_id, start, size, blob_id)
      select part.id, part.start, part.size, part.blob from part where part.blob in (select id from stored)
    )
    select moved.received from moved`
}

/** Blobs, in order. */
export const partsOf = (id: string): Sql => sql`
  select b.id::text as id, b.size, b.sha256 from svc.upload_parts p join svc.blobs b on b.id = p.blob_id
  where p.upload_id = ${id}::uuid order by p.start`

export const removeUpload = (id: string, creator: string): Sql =>
  sql`delete from svc.uploads u where u.id = ${id}::uuid and u.creator = ${creator}`

export const removeExpired: Sql = sql`delete from svc.uploads u where u.id in (
  select id from svc.uploads where expires_at < now() - interval '1 minute' order by expires_at limit 1000 for update skip locked)`
