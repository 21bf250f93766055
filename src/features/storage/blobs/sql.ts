import { type Sql, sql } from '../../../db/sql.ts'
import type { Blob } from './blobs.ts'

/** The bytes are durable by now; what uses them is written in the same transaction. */
export const addBlob = ({ id, size, sha256 }: Blob): Sql =>
  sql`insert into svc.blobs (id, size, sha256) values (${id}::uuid, ${size}, ${sha256})`

export const forgetBlobs = (ids: readonly string[]): Sql =>
  sql`select id::text as id from svc.forget_blobs(${ids}::uuid[]) as id`

/** Those of `ids` that the database knows nothing of. */
export const unknownBlobs = (ids: readonly string[]): Sql => sql`
  select id::text as id from unnest(${ids}::uuid[]) as id where not exists (select from svc.blobs b where b.id = id.id)`
