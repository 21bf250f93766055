import { integerLiteral, type Sql, sql } from '../../db/sql.ts'
import type { RemoveSlice } from '../../db/sweep.ts'

const MAX_FREED = 1000

/** Removes the oldest answers of an account, or of all, until `wanted` bytes are free; none of the last ten minutes. */
export const freeBytes = (account: string | undefined, wanted: number): Sql => sql`
  with oldest as materialized (
    select id, bytes, created_at from svc.kept_answers
    where created_at < now() - interval '10 minutes' and ${account === undefined ? sql`true` : sql`account = ${account}`}
    order by created_at limit ${integerLiteral(MAX_FREED)} for update skip locked
  ), chosen as (
    select id, sum(bytes) over (order by created_at, id) - bytes as before from oldest
  )
  delete from svc.kept_answers k using chosen c where k.id = c.id and c.before < ${wanted}::int8`

const removing =
  (condition: Sql): RemoveSlice =>
  (limit) =>
    sql`
  delete from svc.kept_answers where id = any (array(
    select id from svc.kept_answers where ${condition} limit ${limit}::int for update skip locked))`

/** Counters of accounts of which nothing is kept any more. What is written meanwhile goes into the rows that come instead. */
const foldCounters: RemoveSlice = (limit) => sql`
  with gone as (
    delete from svc.kept_bytes where account <> '' and account = any (array(
      select account from svc.kept_bytes where account <> '' group by account having sum(bytes) = 0 limit ${limit}::int))
    returning account, bytes
  )
  insert into svc.kept_bytes as b (account, slot, bytes)
  select account, 0, sum(bytes) from gone group by account having sum(bytes) <> 0
  on conflict on constraint kept_bytes_pkey do update set bytes = b.bytes + excluded.bytes`

/** What is no longer kept, by indexed conditions. */
export const expiredAnswers = (retention: number): readonly RemoveSlice[] => [
  removing(sql`created_at < now() - make_interval(secs => ${retention}::float8)`),
  removing(sql`session_id is not null and expires_at < now()`),
  foldCounters,
]
