import { type Sql, sql } from '../../../db/sql.ts'
import type { Blob } from './store.ts'

/** Sent when the bytes are durable, in the transaction that writes the reference to them. */
export const addBlob = ({ id, size, sha256 }: Blob): Sql =>
  sql`insert into svc.blobs (id, size, sha256) values (${id}::uuid, ${size}, ${sha256})`

export const forgetBlobs = (ids: readonly string[]): Sql =>
  sql`select id::text as id from svc.forget_blobs(${ids}::uuid[]) as id`

/** Those of `ids` that have no row. */
export const unknownBlobs = (ids: readonly string[]): Sql => sql`
  select id::text as id from unnest(${ids}::uuid[]) as id where not exists (select from svc.blobs b where b.id = id.id)`
