import { EMPTY, type Sql, sql } from '../../../db/sql.ts'
import { closedRecord, isMatch, type NamePage } from './sql.ts'

// These run as the caller on the search path of requests, so names that the operator could shadow are qualified. A caller
// names the columns it holds grants on; svc.guard_object() adds the others from what the server announced.

export const announce = (sealed: string): Sql => sql`select pg_catalog.set_config('svc.upload', ${sealed}, true)`

type NewFile = { bucket: string; name: string; contentType: string; metadata: string }

/** `blobId`: only while it has these bytes. */
export const replaceVisible = ({ bucket, name, contentType, metadata }: NewFile, blobId?: string): Sql => sql`
  update svc.objects o set content_type = ${contentType}, metadata = ${metadata}::pg_catalog.jsonb
  where o.bucket = ${bucket} and o.name = ${name}
    ${blobId === undefined ? EMPTY : sql`and o.blob_id = ${blobId}::pg_catalog.uuid`}`

/** Without RETURNING, which would need the right to read. */
export const insertUnlessVisible = ({ bucket, name, contentType, metadata }: NewFile): Sql => sql`
  insert into svc.objects (bucket, name, content_type, metadata)
  select ${bucket}, ${name}, ${contentType}, ${metadata}::pg_catalog.jsonb
  where not exists (select from svc.objects o where o.bucket = ${bucket} and o.name = ${name})`

export const storedRecord = (bucket: string, name: string): Sql => sql`
  select pg_catalog.json_build_object('record', (${closedRecord})::text, 'isNew', o.created_at = o.updated_at)::text
  from svc.stored_upload(${bucket}, ${name}) o where o.id is not null`

/** Raises when something was stored; see isTrialEnd. */
export const endTrial = (bucket: string, name: string): Sql => sql`select svc.end_trial(${bucket}, ${name})`

export const renameVisible = (bucket: string, from: string, to: string): Sql => sql`
  update svc.objects o set name = ${to} where o.bucket = ${bucket} and o.name = ${from} returning (${closedRecord})::text`

/** Its id, if it was deleted. `blobId`: only while it has these bytes. */
export const deleteVisible = (id: string, blobId: string | null): Sql => sql`
  delete from svc.objects o where o.id = ${id}::pg_catalog.uuid
    and (${blobId}::pg_catalog.uuid is null or o.blob_id = ${blobId}::pg_catalog.uuid) returning o.id`

/** {items, totalItems} of what the caller may see. */
export const listVisible = (page: NamePage): Sql => sql`
  select pg_catalog.json_build_object('items', (
      select coalesce(pg_catalog.json_agg(${closedRecord} order by o.name), '[]') from (
        select * from svc.objects o where ${isMatch(page)} and o.name > ${page.after}
        order by o.name limit ${page.limit}::pg_catalog.int4 offset ${page.offset}::pg_catalog.int8
      ) o), 'totalItems', (select pg_catalog.count(*) from svc.objects o where ${isMatch(page)}))::text`

/** `true` if some policy could let this role upload or replace. */
export const anyUploadPolicy = (role: string): Sql => sql`
  select exists (select from pg_policy p where p.polrelid = 'svc.objects'::regclass and p.polpermissive
    and p.polcmd in ('a', 'w', '*') and (p.polroles @> '{0}'
      or exists (select from unnest(p.polroles) as o(oid) where pg_has_role(${role}, o.oid, 'USAGE'))))::text`
