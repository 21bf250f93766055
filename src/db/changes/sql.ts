import type { Relayed } from '../db.ts'
import { EMPTY, join, type Sql, sql } from '../sql.ts'

export type LogPoint = { xid: string; id: string }

/**
 * `last`: the last assigned id. `oldest`: no transaction below this was running. `bound`: every transaction that took an id
 * up to `last` has a number below this. It must be a new transaction number: the xmax of a snapshot is that of the last
 * transaction that *ended*, and later ones may be running.
 */
export type SettledRow = { last: string; bound: string | null; oldest: string }

/**
 * A bound takes a transaction number, so there is none while `known` is still the last id. It is taken after the id was
 * read, on which it depends; that the snapshot is older than both only makes `oldest` smaller.
 * `careful`: without transactions of other databases, which cannot write this log. More expensive, since it reads the
 * cluster's locks. A transaction whose holder is not found counts as ours.
 */
export const momentOf = ({ known, careful }: { known: bigint | undefined; careful: boolean }): Sql => sql`
  select given.last::text as last, case when given.last is distinct from ${known?.toString() ?? null}::bigint
    then pg_current_xact_id()::text end as bound, ${
      careful
        ? sql`coalesce((
    select running.xid from pg_snapshot_xip(pg_current_snapshot()) as running(xid)
    where not exists (
      select from pg_locks l join pg_stat_activity a on a.pid = l.pid join pg_database d on d.oid = a.datid
      where l.locktype = 'transactionid' and l.granted and l.mode = 'ExclusiveLock'
        and l.transactionid = running.xid::xid and d.datname <> current_database())
    order by running.xid limit 1
  ), pg_snapshot_xmax(pg_current_snapshot()))::text`
        : sql`pg_snapshot_xmin(pg_current_snapshot())::text`
    } as oldest
  from (select last_value - case when is_called then 0 else 1 end as last from svc.change_log_id_seq offset 0) given`

/** TRUNCATE is one change of the whole table, without images. */
export type LoggedAction = 'create' | 'update' | 'delete' | 'truncate'

/** `running`: transactions between both that were not over. `last`: of the entries that were there, the last id. */
export type CommittedRow = { xmin: string; xmax: string; running: readonly string[]; last: string }

export const committedNow: Sql = sql`
  select pg_snapshot_xmin(now.seen)::text as xmin, pg_snapshot_xmax(now.seen)::text as xmax,
    array(select running::text from pg_snapshot_xip(now.seen) as running) as running,
    coalesce((select c.id + c.events - 1 from svc.change_log c order by c.id desc limit 1), 0)::text as last
  from (select pg_current_snapshot() as seen offset 0) now`

export type ChangeRow = {
  /** `<xid>-<id>` */
  position: string
  /** Milliseconds since 1970. */
  at: number
  action: LoggedAction
  /** JSON of a ChangedTable: one text for all changes of the page that are about the same. */
  about: string
  pk: string
  /** See svc.key_text(); null where it is not known. */
  key: string | null
  record: Relayed | null
}

/** A table under its name of now, and the shape it had. */
export type ChangedTable = { oid: number; shape: string; schema: string; name: string }

/** A page of the log ends at either limit, but has at least one change. */
export type PageSize = { changes: number; bytes: number }

/** Most changes of one entry, and the step of the sequence; see migrations/0070_change_log.sql. */
const IDS_OF_ENTRY = sql`1024`

/** The last id of an entry `c`. */
const LAST_ID = sql`(c.id + c.events - 1)`

/** Whether an entry `c` has changes after this id. The first condition is for the index. */
const isBehind = (id: Sql): Sql => sql`c.id > ${id} - ${IDS_OF_ENTRY} and ${LAST_ID} > ${id}`

const IMAGES = [sql`c.record`, sql`c.old_record`]
const sumOf = (bytesOf: (image: Sql) => Sql): Sql =>
  join(
    IMAGES.map((image) => sql`coalesce(${bytesOf(image)}, 0)`),
    sql` + `,
  )

/** Bytes of the images of an entry `c` before compression. Those of a compressed one are known when it was read: json has no length. */
const SIZE = sql`${sumOf(
  (image) =>
    sql`case when pg_column_compression(${image}) is null then pg_column_size(${image}) else octet_length(${image}::text) end`,
)} + case when c.events > 1 then (select p.bytes from svc.change_packs p where p.id = c.id) else 0 end`

/** About the same without reading any: few texts are compressed to less than an eighth. */
const ESTIMATED_SIZE = sumOf(
  (image) => sql`pg_column_size(${image}) * case when pg_column_compression(${image}) is null then 1 else 8 end`,
)

/**
 * The entries `c` of a page. They are chosen before they are unpacked, and by an estimate before they are read, so that its cost
 * does not depend on the rest of the log.
 */
const entriesOf = (from: Sql, upTo: string, { changes, bytes }: PageSize): Sql => sql`
  select c.* from (
    select c.*, sum(c.size) over before as total, sum(c.events) over before as counted from (
      select c.*, ${SIZE} as size from (
        select c.*, sum(c.estimate) over before - c.estimate as estimate_before from (
          select c.id, c.xid, c.at, c.action, c.table_oid, c.shape, c.key, c.record, c.old_record, c.events, ${ESTIMATED_SIZE} as estimate
          from svc.change_log c where ${isBehind(from)} and c.id <= ${upTo}::bigint order by c.id limit ${changes}::int
        ) c window before as (order by c.id rows unbounded preceding)
      ) c where c.estimate_before < ${bytes}::bigint
    ) c window before as (order by c.id rows unbounded preceding)
  ) c where c.total - c.size < ${bytes}::bigint and c.counted - c.events < ${changes}::int`

const pageOf = (from: Sql, upTo: string, size: PageSize): Sql => sql`
  select v.* from (${entriesOf(from, upTo, size)}) c join svc.changes v on v.entry = c.id
  where v.id > ${from} order by v.id limit ${size.changes}::int`

/**
 * A change belongs to a table, not to its name: it is delivered under the current name of the table. A change of a dropped
 * table has no schema if another table has its name now. As svc.changes has them; but an entry of one change, which most are,
 * is taken as it is, and what is known of its table is looked up once for all: that is what reading costs each write.
 */
export const changesAfter = (from: LogPoint, upTo: string, size: PageSize): Sql => sql`
  with entries as materialized (${entriesOf(sql`${from.id}::bigint`, upTo, size)}),
  tables as materialized (
    select t.shape, t.table_oid, s.key_columns, json_build_object('oid', t.table_oid::int8, 'shape', t.shape::text,
      'schema', coalesce(n.nspname, case when to_regclass(format('%I.%I', s.schema_name, s.table_name)) is null then s.schema_name else '' end),
      'name', coalesce(k.relname, s.table_name))::text as about,
      case when cardinality(s.key_columns) = 1 then format('{%s: ', to_json(s.key_columns[1])) end as key_begin
    from (select distinct shape, table_oid from entries) t
    left join lateral (select * from svc.change_shapes s where s.id = t.shape limit 1) s on true
    left join pg_class k on k.oid = t.table_oid left join pg_namespace n on n.oid = k.relnamespace
  ), single as (
    select c.id, c.xid, c.at, case c.action when 'c' then 'create' when 'u' then 'update' when 'd' then 'delete' else 'truncate' end as action,
      t.about, case when t.key_begin is not null
        then coalesce(t.key_begin || (coalesce(c.record, c.old_record) -> t.key_columns[1])::text || '}', '{}')
        else (select coalesce(jsonb_object_agg(k.name, k.value), '{}') from (
          select name, coalesce(c.record, c.old_record) -> name as value from unnest(t.key_columns) as name offset 0
        ) k where k.value is not null)::text end as pk,
      c.key, c.record::text as record
    from entries c join tables t on t.shape = c.shape and t.table_oid = c.table_oid where c.events = 1
  ), packed as (
    select v.id, v.xid, v.at, v.action, t.about, v.pk::text as pk, v.key, v.record::text as record
    from entries c join svc.changes v on v.entry = c.id join tables t on t.shape = c.shape and t.table_oid = c.table_oid
    where c.events > 1 and v.id > ${from.id}::bigint
  )
  select concat(c.xid, '-', c.id) as position, date_part('epoch', c.at) * 1000 as at, c.action, c.about, c.pk, c.key, c.record
  from (select * from single union all select * from packed) c order by c.id limit ${size.changes}::int`

/** Changes of one table, from the first to the last of these ids, for the server's own login. */
export const changesBetween = (first: string, last: string, table: { oid: number }): Sql => sql`
  select v.* from svc.change_log c join svc.changes v on v.entry = c.id
  where ${isBehind(sql`${first}::bigint - 1`)} and c.id <= ${last}::bigint and c.table_oid = ${table.oid}::oid`

/** Images of the changes of one table, from the first to the last of these ids; any login may read them with the server's key. */
export const imagesBetween = (key: string, first: string, last: string, table: { oid: number }): Sql =>
  sql`svc.images_between(${key}, ${first}::pg_catalog.int8, ${last}::pg_catalog.int8, ${table.oid}::pg_catalog.oid)`

const HORIZON = sql`select trimmed_xid as xid, trimmed_id as id from svc.change_horizon`

/** The last settled change; the horizon when the log is empty. */
export const headOfLog = (upTo: string): Sql => sql`
  select xid::text as xid, id::text as id from (
    (select c.xid, ${LAST_ID} as id from svc.change_log c where c.id <= ${upTo}::bigint order by c.id desc limit 1)
    union all (${HORIZON})
  ) known order by known.id desc limit 1`

/**
 * A position is valid if nothing after it was trimmed and this log assigned it: after a restore or a failover that lost
 * the tail, transaction ids belong to other transactions.
 */
export const isKnownPoint = ({ xid, id }: LogPoint): Sql => sql`
  select (
    exists (select from svc.change_log c where c.id > ${id}::bigint - ${IDS_OF_ENTRY} and c.id <= ${id}::bigint
            and ${LAST_ID} >= ${id}::bigint and c.xid = ${xid}::xid8
            and c.id >= (select trimmed_id from svc.change_horizon))
    or exists (select from svc.change_horizon where trimmed_xid = ${xid}::xid8 and trimmed_id = ${id}::bigint)
  )::text`

export const adoptChanges: Sql = sql`select svc.adopt_changes()::text`

/** How long changes are kept for streams and webhooks, and for history; those up to `crowdedOut` are too many for it. */
export type Retention = { streamsSeconds: number; historySeconds: number; crowdedOut: string }

/** The newest entry that the newest `bytes` of the log leave no room for. The log's size on disk says cheaply when there is one. */
export const crowdedOut = (bytes: number): Sql => sql`
  select coalesce(case when pg_total_relation_size('svc.change_log') + pg_total_relation_size('svc.change_packs') > ${bytes}::bigint then (
    select max(sized.id) from (
      select c.id, sum((${SIZE})::bigint + 200) over (order by c.id desc) as total from svc.change_log c
    ) sized where sized.total > ${bytes}::bigint
  ) end, 0)::text`

export const forgetImages = (upTo: string): Sql => sql`select svc.forget_images(${upTo}::bigint, interval '0')::text`

/**
 * Deletes one slice of what is older than the retention and read by every durable reader. Only the first changes of the
 * log are read: it is ordered by time except for the length of transactions, so it needs no index by time.
 */
export const trimSlice = (kept: Retention, upTo: string, limit: number): Sql => sql`
  with horizon as (select from svc.change_horizon for update), first as (
    select id, at from svc.change_log c
    where c.id <= ${upTo}::bigint and exists (select from horizon)
      and ${LAST_ID} <= coalesce((select min(id) from svc.change_readers), ${LAST_ID})
    order by c.id limit ${limit}::int
  ), gone as (
    delete from svc.change_log c using first
    where c.id = first.id and first.at < now() - make_interval(secs => ${kept.streamsSeconds}::float8)
      and (first.at < now() - make_interval(secs => ${kept.historySeconds}::float8) or first.id <= ${kept.crowdedOut}::bigint)
    returning c.xid, c.at, ${LAST_ID} as id, c.id as entry, c.events
  ), unpacked as (
    delete from svc.change_packs p using gone where gone.events > 1 and p.id = gone.entry
  ), moved as (
    update svc.change_horizon set trimmed_xid = top.xid, trimmed_id = top.id,
      trimmed_at = greatest(trimmed_at, (select max(at) from gone))
    from (select xid, id from gone order by id desc limit 1) top where trimmed_id < top.id
  )
  select count(*)::text from gone`

/** A new durable reader starts at the end of the log. */
export const registerReader = (name: string, upTo: string): Sql => sql`
  insert into svc.change_readers (name, xid, id)
  select ${name}, head.xid::xid8, head.id::bigint from (${headOfLog(upTo)}) head
  on conflict (name) do nothing`

/**
 * One step of a durable reader. Its row lock admits one process at a time, and reading, effect and new position are one
 * statement, so a crash repeats all of it or none. `effect` reads from the table `batch`. While nothing
 * is `wanted` the position jumps to the end of the log.
 */
export const durableStep = (
  name: string,
  reader: { wanted: Sql; effect: Sql },
  upTo: string,
  size: PageSize,
): Sql => sql`
  with reader as materialized (
    select xid, id from svc.change_readers where name = ${name} for update skip locked
  ), ask as materialized (
    select (${reader.wanted}) as wanted
  ), page as materialized (
    select c.* from (${pageOf(sql`(select id from reader)`, upTo, size)}) c where (select wanted from ask)
  ), batch as (
    select * from page where action <> 'truncate'
  ), last as (
    (select xid, id from page order by id desc limit 1)
    union all
    (select c.xid, ${LAST_ID} as id from svc.change_log c
     where not (select wanted from ask) and ${isBehind(sql`(select id from reader)`)} and c.id <= ${upTo}::bigint
     order by c.id desc limit 1)
  ), effect as (
    ${reader.effect}
  ), moved as (
    update svc.change_readers r set xid = last.xid, id = last.id, moved_at = now() from last where r.name = ${name}
  )
  select (select wanted from ask) as wanted, (select count(*) from page)::int as count`

/** The furthest point that a durable reader has reached. */
export const lastRead: Sql = sql`select coalesce(max(id), 0)::text from svc.change_readers`

/** Seconds since the oldest change that a reader has not read. */
export const lagOfReaders = (live: LogPoint | undefined): Sql => sql`
  select coalesce(max(extract(epoch from clock_timestamp() - oldest.at)), 0)::text
  from (select id from svc.change_readers ${live ? sql`union all select ${live.id}::bigint` : EMPTY}) r
  cross join lateral (select at from svc.change_log c where ${isBehind(sql`r.id`)} order by c.id limit 1) oldest`

/** What the triggers of watched tables log as the request, until the end of the transaction. */
export const nameRequest = (requestId: string): Sql => sql`
  select pg_catalog.set_config('svc.request_id', ${requestId}, true)`

export const notifyReaders = (sender: string): Sql => sql`select pg_notify(${CHANNEL}, ${sender})`

export const CHANNEL = 'svc_changes'
export const READERS_CHANNEL = 'svc_change_readers'

export const tellOfReaders = (message: string): Sql => sql`select pg_notify(${READERS_CHANNEL}, ${message})`

/** A transaction that others wait for. */
export type Holder = { what: string; role: string | null; name: string | null; state: string | null; seconds: number }

/** The transactions of this database that have written and are open for so long, the oldest first. */
export const oldestWriters = (seconds: number): Sql => sql`
  select w.what, w.role, w.name, w.state, extract(epoch from clock_timestamp() - w.since)::int as seconds
  from (
    select 'process ' || a.pid as what, a.usename::text as role, a.application_name as name, a.state, a.xact_start as since
    from pg_stat_activity a where a.datname = current_database() and a.backend_xid is not null
    union all
    select 'a prepared transaction', p.owner::text, p.gid, 'prepared', p.prepared
    from pg_prepared_xacts p where p.database = current_database()
  ) w where w.since < clock_timestamp() - make_interval(secs => ${seconds}) order by w.since limit 3`
