import { EMPTY, type Sql, sql } from '../sql.ts'

export type LogPlace = { xid: string; id: string }

/** Everything below is committed or rolled back; above it a late committer could still slip in before what we have read. */
const SETTLED = sql`pg_snapshot_xmin(pg_current_snapshot())`

/**
 * The same without transactions of other databases, which cannot write this log. Dearer, since it looks through the
 * cluster's locks, so it is asked only when the simple answer keeps changes waiting. A transaction whose holder is not found
 * counts as ours.
 */
const SETTLED_HERE = sql`coalesce((
  select min(running.xid) from pg_snapshot_xip(pg_current_snapshot()) as running(xid)
  where not exists (
    select from pg_locks l join pg_stat_activity a on a.pid = l.pid join pg_database d on d.oid = a.datid
    where l.locktype = 'transactionid' and l.granted and l.mode = 'ExclusiveLock'
      and l.transactionid = running.xid::xid and d.datname <> current_database())
), pg_snapshot_xmax(pg_current_snapshot()))`

/** `cluster`: no transaction anywhere is older. `database`: none of this database is. */
export type Settled = 'cluster' | 'database'
const below = (settled: Settled): Sql => (settled === 'cluster' ? SETTLED : sql`(select ${SETTLED_HERE})`)

const after = ({ xid, id }: LogPlace): Sql => sql`(c.xid, c.id) > (${xid}::xid8, ${id}::bigint)`

export type ChangeRow = {
  xid: string | null
  id: string
  /** Milliseconds since 1970. */
  at: number
  action: 'create' | 'update' | 'delete'
  schema: string
  name: string
  pk: string
  record: string | null
  oldRecord: string | null
  /** There are committed changes that must wait for an older transaction to end. */
  held: boolean
}

/** At least one row, so that `held` is always answered; its xid is null when there is nothing to read. */
export const changesAfter = (from: LogPlace, limit: number, settled: Settled): Sql => sql`
  select c.xid::text as xid, c.id::text as id, (extract(epoch from c.at) * 1000)::float8 as at, c.action,
         c.schema_name as schema, c.table_name as name, c.pk::text as pk, c.record::text as record,
         c.old_record::text as "oldRecord", exists (select from svc.changes h where h.xid >= ${below(settled)}) as held
  from (select) one left join lateral (
    select * from svc.changes c where ${after(from)} and c.xid < ${below(settled)} order by c.xid, c.id limit ${limit}::int
  ) c on true
  order by c.xid, c.id`

const HORIZON = sql`select trimmed_xid as xid, trimmed_id as id from svc.change_horizon`

/** The last settled change; the horizon when the log is empty. */
export const headOfLog: Sql = sql`
  select xid::text as xid, id::text as id from (
    (select xid, id from svc.changes where xid < ${below('database')} order by xid desc, id desc limit 1)
    union all (${HORIZON})
  ) known order by known.xid desc, known.id desc limit 1`

/**
 * A position is good when nothing behind it was trimmed and it names something this log handed out: after a restore
 * or a failover that lost the tail, transaction ids mean other transactions.
 */
export const isKnownPlace = ({ xid, id }: LogPlace): Sql => sql`
  select (
    exists (select from svc.changes c where c.xid = ${xid}::xid8 and c.id = ${id}::bigint
            and (c.xid, c.id) >= (select trimmed_xid, trimmed_id from svc.change_horizon))
    or exists (select from svc.change_horizon where trimmed_xid = ${xid}::xid8 and trimmed_id = ${id}::bigint)
  )::text`

export const adoptChanges: Sql = sql`select svc.adopt_changes()::text`

/**
 * Deletes one slice of what is older than the retention and read by every durable reader. Only the first changes of the
 * log are looked at: it is in the order of time but for the length of transactions, so it needs no index by time.
 */
export const trimSlice = (retentionSeconds: number, limit: number): Sql => sql`
  with horizon as (select from svc.change_horizon for update), first as (
    select xid, id, at from svc.changes c
    where c.xid < ${SETTLED} and exists (select from horizon)
      and not exists (select from svc.change_readers r where (r.xid, r.id) < (c.xid, c.id))
    order by c.xid, c.id limit ${limit}::int
  ), gone as (
    delete from svc.changes c using first
    where c.xid = first.xid and c.id = first.id and first.at < now() - make_interval(secs => ${retentionSeconds})
    returning c.xid, c.id
  ), moved as (
    update svc.change_horizon set trimmed_xid = top.xid, trimmed_id = top.id
    from (select xid, id from gone order by xid desc, id desc limit 1) top
    where (trimmed_xid, trimmed_id) < (top.xid, top.id)
  )
  select count(*)::text from gone`

/** A new durable reader starts at the end of the log. */
export const registerReader = (name: string): Sql => sql`
  insert into svc.change_readers (name, xid, id)
  select ${name}, head.xid::xid8, head.id::bigint from (${headOfLog}) head
  on conflict (name) do nothing`

/**
 * One step of a durable reader. Its row lock makes sure that one process at a time takes it, and reading, effect and new
 * position are one statement, so a crash repeats all of it or none. `effect` reads from the table `batch`. While nothing
 * is `wanted` the position jumps to the end of the log.
 */
export const durableStep = (
  name: string,
  reader: { wanted: Sql; effect: Sql },
  limit: number,
  settled: Settled,
): Sql => sql`
  with reader as materialized (
    select xid, id from svc.change_readers where name = ${name} for update skip locked
  ), ask as materialized (
    select (${reader.wanted}) as wanted
  ), batch as materialized (
    select c.* from svc.changes c
    where (select wanted from ask) and (c.xid, c.id) > ((select xid from reader), (select id from reader))
      and c.xid < ${below(settled)}
    order by c.xid, c.id limit ${limit}::int
  ), last as (
    (select xid, id from batch order by xid desc, id desc limit 1)
    union all
    (select xid, id from svc.changes
     where not (select wanted from ask) and (xid, id) > ((select xid from reader), (select id from reader))
       and xid < ${below(settled)}
     order by xid desc, id desc limit 1)
  ), effect as (
    ${reader.effect}
  ), moved as (
    update svc.change_readers r set xid = last.xid, id = last.id, moved_at = now() from last where r.name = ${name}
  )
  select (select wanted from ask) as wanted, (select count(*) from batch)::int as count,
         exists (select from svc.changes h where h.xid >= ${below(settled)}) as held`

/** Seconds since the oldest change that a reader has not read. */
export const lagOfReaders = (live: LogPlace | undefined): Sql => sql`
  select coalesce(max(extract(epoch from clock_timestamp() - oldest.at)), 0)::text
  from (select xid, id from svc.change_readers
        ${live ? sql`union all select ${live.xid}::xid8, ${live.id}::bigint` : EMPTY}) r
  cross join lateral (
    select at from svc.changes c where (c.xid, c.id) > (r.xid, r.id) order by c.xid, c.id limit 1
  ) oldest`

export const notifyReaders = (sender: string): Sql => sql`select pg_notify(${CHANNEL}, ${sender})`

export const CHANNEL = 'svc_changes'
