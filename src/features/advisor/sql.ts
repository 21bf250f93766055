import { type Sql, sql } from '../../db/sql.ts'

/** Tables below this many rows are read whole, index or not. */
const LEAST_ROWS = 1_000

const isUsers = sql`n.nspname not in ('svc', 'pg_catalog', 'information_schema', 'pg_toast') and n.nspname !~ '^pg_(temp|toast_temp)_'`
const label = sql`svc.table_label(n.nspname, c.relname)`
const name = sql`format('%I.%I', n.nspname, c.relname)`
const rowCount = sql`greatest(c.reltuples, coalesce((select s.n_live_tup from pg_stat_user_tables s where s.relid = c.oid), 0))`
/** Whether an index of the table begins with these columns, in any order. */
const leads = (
  columns: Sql,
): Sql => sql`exists (select from pg_index i where i.indrelid = c.oid and i.indisvalid and i.indpred is null
  and (i.indkey::int2[])[0:cardinality(${columns}) - 1] @> ${columns} and (i.indkey::int2[])[0:cardinality(${columns}) - 1] <@ ${columns})`

type AdviceRow = { kind: string; table: string; what: string; sql: string }

/** Of two indexes that are the same, the one that serves no constraint goes; the younger one, if neither does. */
const doubleIndexes = sql`
  select 'double_index' as kind, ${label} as "table", 'the index ' || x.relname || ' is the same as ' || y.relname as what,
    format('drop index concurrently %I.%I', n.nspname, x.relname) as sql
  from pg_index a join pg_index b on b.indrelid = a.indrelid and b.indexrelid <> a.indexrelid
    and b.indkey::text = a.indkey::text and b.indclass::text = a.indclass::text and b.indoption::text = a.indoption::text and b.indcollation::text = a.indcollation::text
    and coalesce(b.indexprs::text, '') = coalesce(a.indexprs::text, '') and coalesce(b.indpred::text, '') = coalesce(a.indpred::text, '')
  join pg_class x on x.oid = a.indexrelid join pg_class y on y.oid = b.indexrelid and y.relam = x.relam
  join pg_class c on c.oid = a.indrelid join pg_namespace n on n.oid = c.relnamespace
  where ${isUsers} and not exists (select from pg_constraint k where k.conindid = a.indexrelid and k.contype in ('p', 'u', 'x'))
    and (b.indisunique and not a.indisunique or b.indisunique = a.indisunique and (a.indexrelid > b.indexrelid
      or exists (select from pg_constraint k where k.conindid = b.indexrelid and k.contype in ('p', 'u', 'x'))))
    and not (a.indisunique and not b.indisunique)`

/** Never read since statistics began, a day ago or ten thousand writes. What a policy or foreign key needs stays. */
const unusedIndexes = sql`
  select 'unused_index' as kind, ${label} as "table", 'the index ' || x.relname || ' has never been read' as what,
    format('drop index concurrently %I.%I', n.nspname, x.relname) as sql
  from pg_stat_user_indexes s join pg_index i on i.indexrelid = s.indexrelid join pg_class x on x.oid = s.indexrelid
  join pg_class c on c.oid = s.relid join pg_namespace n on n.oid = c.relnamespace
  join pg_stat_user_tables w on w.relid = s.relid
  where ${isUsers} and s.idx_scan = 0 and not i.indisunique and not i.indisexclusion and not i.indisreplident
    and not exists (select from pg_constraint k where k.conindid = s.indexrelid)
    and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'f' and k.conkey[1] = i.indkey[0])
    and not exists (select from pg_policy p join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
      where p.polrelid = c.oid and svc.owner_column(pg_get_expr(p.polqual, p.polrelid)) = a.attname)
    and (w.n_tup_ins + w.n_tup_upd + w.n_tup_del >= 10000
      or (select coalesce(d.stats_reset, pg_postmaster_start_time()) < now() - interval '1 day' from pg_stat_database d where d.datname = current_database()))`

/** A policy that ties rows to a column without an index. */
const policyColumns = sql`
  select distinct 'policy_index' as kind, ${label} as "table", 'the policy ' || p.polname || ' looks for ' || a.attname || ', which has no index' as what,
    format('create index concurrently on %s (%I)', ${name}, a.attname) as sql
  from pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace
  join pg_attribute a on a.attrelid = c.oid and a.attname = svc.owner_column(pg_get_expr(p.polqual, p.polrelid))
  where ${isUsers} and c.relrowsecurity and ${rowCount} >= ${LEAST_ROWS}::int and not ${leads(sql`array[a.attnum]`)}`

export type PolicyToJudge = {
  table: string
  name: string
  ident: string
  using: string | null
  check: string | null
  /** Functions that it calls and that are the operator's. */
  functions: string[]
}

export const policiesWithFunctions: Sql = sql`
  select ${label} as "table", p.polname as name, ${name} as ident, pg_get_expr(p.polqual, p.polrelid) as "using",
    pg_get_expr(p.polwithcheck, p.polrelid) as "check", array_agg(distinct f.proname::text) as functions
  from pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace
  join pg_depend d on d.classid = 'pg_policy'::regclass and d.objid = p.oid and d.refclassid = 'pg_proc'::regclass
  join pg_proc f on f.oid = d.refobjid join pg_namespace g on g.oid = f.pronamespace
  where ${isUsers} and c.relrowsecurity and g.nspname not in ('svc', 'pg_catalog') group by 1, 2, 3, 4, 5`

/** Foreign keys that a row's children are found by, without an index; of large tables, or where it was seen. */
export type ExpandRow = AdviceRow & { isLarge: boolean; child: string; parent: string }
export const expandsWithoutIndex: Sql = sql`
  select 'expand_index' as kind, ${label} as "table",
    'rows of ' || ${label} || ' are found by ' || string_agg(a.attname, ', ' order by k.n) || ', which has no index' as what,
    format('create index concurrently on %s (%s)', ${name}, string_agg(format('%I', a.attname), ', ' order by k.n)) as sql,
    ${rowCount} >= ${LEAST_ROWS}::int as "isLarge", format('"%s"."%s"', n.nspname, c.relname) as child,
    (select format('"%s"."%s"', m.nspname, q.relname) from pg_class q join pg_namespace m on m.oid = q.relnamespace where q.oid = f.confrelid) as parent
  from pg_constraint f join pg_class c on c.oid = f.conrelid join pg_namespace n on n.oid = c.relnamespace
  cross join lateral unnest(f.conkey) with ordinality as k(attnum, n)
  join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
  where f.contype = 'f' and f.conparentid = 0 and ${isUsers} and not ${leads(sql`f.conkey`)}
  group by f.oid, n.nspname, c.relname, c.oid, c.reltuples, f.confrelid`

const sequences = sql`
  select 'sequence' as kind, coalesce(o.label, svc.table_label(s.schemaname, s.sequencename)) as "table",
    'the sequence ' || s.sequencename || ' has used ' || floor(100 * s.last_value::numeric / l.most) || ' % of its numbers' as what,
    coalesce(case when o.type = 'int8' then null else format('alter table %s alter column %I type bigint; ', o.ident, o.attname) end, '')
      || format('alter sequence %I.%I as bigint', s.schemaname, s.sequencename) as sql
  from pg_sequences s
  left join lateral (
    select svc.table_label(n.nspname, c.relname) as label, ${name} as ident, a.attname, t.typname as type
    from pg_depend d join pg_class c on c.oid = d.refobjid join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum = d.refobjsubid join pg_type t on t.oid = a.atttypid
    where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')
      and d.objid = format('%I.%I', s.schemaname, s.sequencename)::regclass limit 1
  ) o on true
  cross join lateral (select least(s.max_value, case o.type when 'int2' then 32767 when 'int4' then 2147483647 else 9223372036854775807 end) as most) l
  where s.schemaname <> 'svc' and s.increment_by > 0 and not s.cycle and s.last_value::numeric > 0.8 * l.most`

/** What a table takes beyond what its rows would: by their number and average width. */
const bloat = sql`
  select 'bloat' as kind, ${label} as "table",
    round(100 * (1 - e.bytes / (c.relpages * 8192.0))) || ' % of ' || pg_size_pretty(c.relpages * 8192::bigint) || ' is not in use' as what,
    format('vacuum (full, analyze) %s', ${name}) as sql
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  cross join lateral (
    select coalesce(sum(s.avg_width * (1 - s.null_frac)), 0) as width, count(*) as known from pg_stats s where s.schemaname = n.nspname and s.tablename = c.relname
  ) w
  cross join lateral (select c.reltuples * (ceil((w.width + 24 + 4) / 8) * 8 + 4) * 1.05 + 8192 as bytes) e
  where ${isUsers} and c.relkind in ('r', 'm') and c.relpages > 0 and c.reltuples >= 0 and (w.known > 0 or c.reltuples = 0)
    and c.relpages * 8192.0 - e.bytes > 10 * 1024 * 1024 and e.bytes / (c.relpages * 8192.0) < 0.5`

const longTransactions = sql`
  select 'long_transaction' as kind, '' as "table",
    'a transaction of ' || coalesce(nullif(a.application_name, ''), a.usename::text, 'a client') || ' has been open for ' || floor(extract(epoch from now() - a.xact_start)) || ' seconds' as what,
    format('select pg_terminate_backend(%s)', a.pid) as sql
  from pg_stat_activity a
  where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid() and a.xact_start < now() - interval '60 seconds'`

export const catalogueAdvice: Sql = sql`
  with double as (${doubleIndexes}), unused as (${unusedIndexes})
  select * from double union all select u.* from unused u where u.sql not in (select d.sql from double d)
  union all select * from (${policyColumns}) p union all select * from (${sequences}) s union all select * from (${bloat}) b
  union all select * from (${longTransactions}) t order by 1, 2, 4`

/** Rows and existing indexes of tables that a plan reads whole. */
export type ScannedTable = { schema: string; table: string; label: string; rows: number; leading: string[] }
export const scannedTables = (names: readonly string[]): Sql => sql`
  select n.nspname as schema, c.relname as "table", ${label} as label, ${rowCount}::float8 as rows,
    coalesce((select array_agg((select string_agg(a.attname, ',' order by k.n) from unnest(i.indkey::int2[]) with ordinality as k(attnum, n)
      join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum)) from pg_index i where i.indrelid = c.oid and i.indisvalid and i.indpred is null), '{}') as leading
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname || '.' || c.relname = any (${names}::text[])`

export const keepShapes = (
  ids: readonly string[],
  roles: readonly string[],
  texts: readonly string[],
  runs: readonly number[],
): Sql => sql`
  insert into svc.shapes (id, role, statement, runs)
  select * from unnest(${ids}::text[], ${roles}::text[], ${texts}::text[], ${runs.map(String)}::bigint[])
  on conflict (id) do update set runs = svc.shapes.runs + excluded.runs, last_seen = now()`

/** Those of the last week; of more than a thousand the ones that ran least go. */
export const forgetShapes: Sql = sql`
  delete from svc.shapes where last_seen < now() - interval '7 days' or id in (select id from svc.shapes order by runs desc offset 1000)`

export const keptShapes: Sql = sql`select role, statement as text, runs::float8 as runs from svc.shapes order by svc.shapes.runs desc limit 500`
