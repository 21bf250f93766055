import { type Sql, sql } from '../../../db/sql.ts'
import type { Blob } from '../blobs/store.ts'

export type KeptImage = Blob & { contentType: string }

/** By the hash of the original and the parameters. */
export const findImage = (source: string, parameters: string): Sql => sql`
  select b.id::text as id, b.size, b.sha256, t.content_type as "contentType" from svc.transforms t join svc.blobs b on b.id = t.blob_id
  where t.source = ${source} and t.parameters = ${parameters}`

/** No row if another process has made it meanwhile. Sent with the bytes durable. */
export const keepImage = (source: string, parameters: string, { id, size, sha256, contentType }: KeptImage): Sql => sql`
  with taken as (select from svc.transforms t where t.source = ${source} and t.parameters = ${parameters}),
  stored as (
    insert into svc.blobs (id, size, sha256) select ${id}::uuid, ${size}, ${sha256} where not exists (select from taken) returning id
  )
  insert into svc.transforms (source, parameters, blob_id, size, content_type)
  select ${source}, ${parameters}, stored.id, ${size}, ${contentType} from stored returning blob_id`

/** The oldest, beyond so many bytes of all. */
export const dropOldest = (most: number): Sql => sql`
  delete from svc.transforms t where (select s.bytes from svc.stored_bytes s where s.kind = 'transforms' and s.key = '') > ${most}
    and t.blob_id in (
      select o.blob_id from (
        select blob_id, sum(size) over (order by created_at, blob_id) - size as before from svc.transforms
      ) o where o.before < (select s.bytes from svc.stored_bytes s where s.kind = 'transforms' and s.key = '') - ${most}::bigint)`
