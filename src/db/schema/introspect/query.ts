import { EMPTY, type Sql, sql } from '../../sql.ts'

// Everything is qualified with pg_catalog: these statements run with the exposed schemas on the search path (so that
// PostgreSQL prints type names the way the operator writes them), where `public.unnest` must not be called instead.

const ownedByExtension = (catalogue: Sql, oid: Sql): Sql => sql`exists (
  select from pg_catalog.pg_depend d
  where d.classid = ${catalogue} and d.objid = ${oid} and d.deptype = 'e')`

/** select 1, insert 2, update 4, delete 8; nothing without USAGE on the schema. PUBLIC and inherited grants count. */
const tableBits = (role: Sql): Sql => sql`
  case when pg_catalog.has_schema_privilege(${role}, t.namespace, 'USAGE') then
    case when pg_catalog.has_table_privilege(${role}, t.oid, 'SELECT') then 1 else 0 end
    + case when pg_catalog.has_table_privilege(${role}, t.oid, 'INSERT') then 2 else 0 end
    + case when pg_catalog.has_table_privilege(${role}, t.oid, 'UPDATE') then 4 else 0 end
    + case when pg_catalog.has_table_privilege(${role}, t.oid, 'DELETE') then 8 else 0 end
  else 0 end`

const columnBits = (role: Sql): Sql => sql`
  case when pg_catalog.has_schema_privilege(${role}, t.namespace, 'USAGE') then
    case when pg_catalog.has_column_privilege(${role}, t.oid, a.attnum, 'SELECT') then 1 else 0 end
    + case when pg_catalog.has_column_privilege(${role}, t.oid, a.attnum, 'INSERT') then 2 else 0 end
    + case when pg_catalog.has_column_privilege(${role}, t.oid, a.attnum, 'UPDATE') then 4 else 0 end
  else 0 end`

const mayExecute = (role: Sql): Sql => sql`
  coalesce(pg_catalog.has_schema_privilege(${role}, f.pronamespace, 'USAGE')
    and pg_catalog.has_function_privilege(${role}, f.oid, 'EXECUTE'), false)`

const anon = sql`who.anon`
const authenticated = sql`who.authenticated`

const action = (code: Sql): Sql => sql`
  case ${code} when 'a' then 'NO ACTION' when 'r' then 'RESTRICT' when 'c' then 'CASCADE'
    when 'n' then 'SET NULL' when 'd' then 'SET DEFAULT' end`

const tables = sql`
  select t.oid::pg_catalog.int8 as oid, t.schema, t.name, t.kind, d.description as comment, t.rls,
    pg_catalog.json_build_array(${tableBits(anon)}, ${tableBits(authenticated)}) as privileges,
    case when t.kind = 'v' or t.has_handler then pg_catalog.pg_relation_is_updatable(t.oid, false) when t.kind = 'f' then 0 end as writable,
    -- 1 << CmdType of each; one that does something else instead and returns it is as good as the table.
    (select coalesce(pg_catalog.bit_or(1 << r.ev_type::text::pg_catalog.int4), 0) from pg_catalog.pg_rewrite r
     where r.ev_class = t.oid and r.ev_type <> '1' and r.ev_enabled <> 'D'
       and not (r.is_instead and r.ev_action::text ~ ':returningList \\(\\{')) as rules,
    exists (select from pg_catalog.pg_trigger g
            where g.tgrelid = t.oid and g.tgname = 'svc_watch' and g.tgenabled <> 'D') as watched,
    t.kind <> 'r' or t.parent or t.oid in (select c.relation from user_code c) or exists (
      select from pg_catalog.pg_trigger g where g.tgrelid = t.oid and not g.tgisinternal
        and g.tgname not like 'svc\\_%' and g.tgenabled <> 'D') as "userCode",
    (select k.conkey from pg_catalog.pg_constraint k where k.conrelid = t.oid and k.contype = 'p') as "primaryKey",
    (select pg_catalog.json_agg(pg_catalog.json_build_array(
        a.attnum, a.attname, a.atttypid::text || ':' || a.atttypmod::text,
        case when a.attnotnull then 1 else 0 end + case a.attidentity when 'a' then 2 when 'd' then 4 else 0 end
          + case when a.attgenerated <> '' then 8 else 0 end,
        case when a.attgenerated = '' then pg_catalog.pg_get_expr(v.adbin, v.adrelid) end, c.description,
        case when a.attacl is not null then
          pg_catalog.json_build_array(${columnBits(anon)}, ${columnBits(authenticated)}) end,
        case when a.attgenerated <> '' then pg_catalog.json_build_array(
          v.oid::pg_catalog.int8, pg_catalog.pg_get_expr(v.adbin, v.adrelid), a.attgenerated = 'v', case when a.attgenerated = 'v' then (
          select pg_catalog.json_agg(distinct r.attname) from pg_catalog.pg_depend e
          join pg_catalog.pg_attribute r on r.attrelid = a.attrelid and r.attnum = e.refobjsubid and r.attnum <> a.attnum
          where e.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and e.objid = v.oid
            and e.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and e.refobjid = a.attrelid) end) end) order by a.attnum)
     from pg_catalog.pg_attribute a
     left join pg_catalog.pg_attrdef v on v.adrelid = a.attrelid and v.adnum = a.attnum
     left join pg_catalog.pg_description c
       on c.objoid = a.attrelid and c.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass and c.objsubid = a.attnum
     where a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped) as columns
  from relations t
  cross join who
  left join pg_catalog.pg_description d
    on d.objoid = t.oid and d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objsubid = 0
  order by t.rank, t.name`

// Of the default operator class, by which indexes and foreign keys compare: those that are off the search path, where all
// who ask may name them.
const operators = sql`
  select pg_catalog.json_object_agg(k.comparison, pg_catalog.json_build_array(n.nspname, o.oprname))
  from (
    select c.opcfamily, c.opcintype, am.amname = 'btree' as ordered
    from pg_catalog.pg_opclass c join pg_catalog.pg_am am on am.oid = c.opcmethod
    where c.opcintype = b.oid and c.opcdefault and am.amname in ('btree', 'hash')
    order by am.amname limit 1
  ) c
  join pg_catalog.pg_amop m on m.amopfamily = c.opcfamily and m.amoppurpose = 's'
    and m.amoplefttype = c.opcintype and m.amoprighttype = c.opcintype
  join pg_catalog.pg_operator e on e.oid = m.amopopr
  cross join lateral (values
    (case when c.ordered then ('{<,<=,=,>=,>}'::text[])[m.amopstrategy] else '=' end, e.oid),
    (case when m.amopstrategy = 3 or not c.ordered then '!=' end, e.oprnegate)) as k(comparison, operator)
  join pg_catalog.pg_operator o on o.oid = k.operator
  join pg_catalog.pg_namespace n on n.oid = o.oprnamespace
  where k.comparison is not null and n.nspname <> 'pg_catalog' and n.oid not in (select x.oid from exposed x)
    and pg_catalog.has_schema_privilege(who.anon, n.oid, 'USAGE')
    and pg_catalog.has_schema_privilege(who.authenticated, n.oid, 'USAGE')
    and pg_catalog.has_schema_privilege(n.oid, 'USAGE')`

// Domains are resolved to their base type; its modifier is the one of the innermost domain.
const types = sql`
  select u.oid::text || ':' || u.modifier::text as key, u.oid::pg_catalog.int8 as oid,
    pg_catalog.format_type(u.oid, u.modifier) as formatted, n.nspname as schema, t.typname as name,
    coalesce(d.not_null, false) as "notNull", b.oid::pg_catalog.int8 as "baseOid", bn.nspname as "baseSchema",
    b.typname as "baseName", b.typtype as "baseKind", b.typcategory as "baseCategory",
    coalesce(d.modifier, u.modifier) as "baseModifier", svc.reads_back(b.oid) as "readsBack", el.element,
    case when b.typtype = 'b' and bn.nspname <> 'pg_catalog' then (${operators}) end as operators,
    case when b.typtype = 'e' or el.oid is not null then (
      select pg_catalog.json_agg(e.enumlabel order by e.enumsortorder)
      from pg_catalog.pg_enum e where e.enumtypid = coalesce(el.oid, b.oid)) end as labels
  from used_types u
  cross join who
  join pg_catalog.pg_type t on t.oid = u.oid
  join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  left join (select d.oid, d.base, d.modifier, d.not_null from domains d
             join pg_catalog.pg_type x on x.oid = d.base where x.typtype <> 'd') d on d.oid = t.oid
  join pg_catalog.pg_type b on b.oid = coalesce(d.base, t.oid)
  join pg_catalog.pg_namespace bn on bn.oid = b.typnamespace
  left join lateral (
    with recursive bases(oid) as (
      select b.typelem where b.typcategory = 'A'
      union all
      select x.typbasetype from bases s join pg_catalog.pg_type x on x.oid = s.oid where x.typtype = 'd')
    select x.oid, pg_catalog.json_build_object('name', x.typname, 'kind', x.typtype, 'category', x.typcategory) as element
    from bases s join pg_catalog.pg_type x on x.oid = s.oid where x.typtype <> 'd') el on true`

// A foreign key to a partitioned table has one hidden copy per referenced partition, on the same table; these are left
// out. A partition's copy of its parent's key is kept.
const foreignKeys = sql`
  select k.conrelid::pg_catalog.int8 as "table", k.conname as name, k.conkey as columns,
    k.confrelid::pg_catalog.int8 as "refTable", rn.nspname as "refSchema", r.relname as "refName",
    k.confkey as "refColumns", case when k.confrelid not in (select t.oid from relations t) then (
      select pg_catalog.json_agg(a.attname order by u.ord)
      from pg_catalog.unnest(k.confkey) with ordinality as u(attnum, ord)
      join pg_catalog.pg_attribute a on a.attrelid = k.confrelid and a.attnum = u.attnum) end as "foreignNames",
    ${action(sql`k.confupdtype`)} as "onUpdate", ${action(sql`k.confdeltype`)} as "onDelete",
    k.conparentid <> 0 as inherited,
    -- The column is of PostgreSQL 18.
    coalesce((pg_catalog.to_jsonb(k) ->> 'conperiod')::pg_catalog.bool, false) as "overPeriod"
  from relations t
  join pg_catalog.pg_constraint k on k.conrelid = t.oid and k.contype = 'f'
  join pg_catalog.pg_class r on r.oid = k.confrelid
  join pg_catalog.pg_namespace rn on rn.oid = r.relnamespace
  left join pg_catalog.pg_constraint parent on parent.oid = k.conparentid
  where k.conparentid = 0 or (parent.conrelid <> k.conrelid and parent.confrelid = k.confrelid)
  order by k.conname, t.rank, t.name`

const checks = sql`
  select k.conrelid::pg_catalog.int8 as "table", k.conname as name, pg_catalog.pg_get_constraintdef(k.oid) as definition
  from relations t
  join pg_catalog.pg_constraint k on k.conrelid = t.oid and k.contype = 'c'
  order by k.conname`

const indexes = sql`
  select i.indrelid::pg_catalog.int8 as "table", x.relname as name, i.indisunique as "isUnique",
    i.indisprimary as "isPrimary", m.amname as method,
    -- WITHOUT OVERLAPS makes a unique index of exclusions.
    i.indisunique and not i.indisexclusion and i.indimmediate and i.indisvalid and i.indpred is null
      and i.indexprs is null as "isUniqueKey",
    (i.indkey::pg_catalog.int2[])[0:i.indnkeyatts - 1] as columns,
    case when i.indexprs is not null then (
      select pg_catalog.json_agg(pg_catalog.pg_get_indexdef(i.indexrelid, p, true) order by p)
      from pg_catalog.generate_series(1, i.indnkeyatts::pg_catalog.int4) as p) end as expressions,
    pg_catalog.pg_get_indexdef(i.indexrelid) as definition
  from relations t
  join pg_catalog.pg_index i on i.indrelid = t.oid and i.indislive and i.indisvalid
  join pg_catalog.pg_class x on x.oid = i.indexrelid
  join pg_catalog.pg_am m on m.oid = x.relam
  order by x.relname`

const policies = sql`
  select p.polrelid::pg_catalog.int8 as "table", p.polname as name,
    case p.polcmd when 'r' then 'SELECT' when 'a' then 'INSERT' when 'w' then 'UPDATE' when 'd' then 'DELETE' else 'ALL' end as command,
    p.polpermissive as permissive,
    coalesce((select pg_catalog.json_agg(r.rolname order by r.rolname) from pg_catalog.pg_roles r
              where r.oid = any(p.polroles)), '[]') as roles,
    coalesce((select pg_catalog.json_agg(r.name) from (values ('svc_anon'), ('svc_authenticated')) as r(name)
              where svc.policy_is_for(p.polroles, r.name)), '[]') as "callers",
    pg_catalog.pg_get_expr(p.polqual, p.polrelid) as "usingExpr",
    pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid) as "withCheckExpr",
    coalesce((select pg_catalog.json_agg(distinct m.found[1]::pg_catalog.int8)
              from pg_catalog.regexp_matches(
                pg_catalog.concat(p.polqual, case p.polcmd when '*' then p.polwithcheck end), ':relid ([0-9]+)', 'g') as m(found)), '[]') as reads
  from relations t
  join pg_catalog.pg_policy p on p.polrelid = t.oid
  order by p.polname`

const functions = sql`
  select f.oid::pg_catalog.int8 as oid, f.schema, f.proname as name, d.description as comment,
    (select pg_catalog.json_agg(pg_catalog.json_build_array(
        coalesce(f.proargnames[u.ord], ''), u.type::text || ':-1', coalesce(f.proargmodes[u.ord], 'i'),
        case when f.provariadic <> 0 then pg_catalog.pg_get_function_arg_default(f.oid, u.ord::pg_catalog.int4) end) order by u.ord)
     from pg_catalog.unnest(f.all_types) with ordinality as u(type, ord)) as arguments,
    f.pronargdefaults as defaults, pg_catalog.pg_get_function_result(f.oid) as "returnType",
    f.prorettype::text || ':-1' as result,
    f.proretset as "returnsSet", f.prorettype = 'pg_catalog.void'::pg_catalog.regtype as "isVoid",
    (r.typtype = 'c' or r.oid = 'pg_catalog.record'::pg_catalog.regtype or coalesce('t' = any(f.proargmodes), false)
      or exists (select from pg_catalog.pg_type b where b.oid = r.typbasetype and b.typtype = 'c')) as "returnsRow",
    nullif(r.typrelid, 0)::pg_catalog.int8 as "rowOf",
    f.provolatile as volatility,
    pg_catalog.json_build_array(${mayExecute(anon)}, ${mayExecute(authenticated)}) as executable
  from routines f
  cross join who
  join pg_catalog.pg_type r on r.oid = f.prorettype
  left join pg_catalog.pg_description d
    on d.objoid = f.oid and d.classoid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.objsubid = 0
  order by f.rank, f.proname, f.pronargs, pg_catalog.pg_get_function_identity_arguments(f.oid)`

// A view reads with the rights of its owner unless it is security_invoker, also through the views it reads.
// A materialized view always has the rows its owner sees.
const leaks = sql`
  select v.oid::pg_catalog.int8 as view,
    pg_catalog.json_agg(distinct n.nspname || '.' || c.relname) as tables
  from relations v
  join reads r on r.view = v.oid
  join pg_catalog.pg_class c on c.oid = r.relation and c.relrowsecurity
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where not exists (
    select from pg_catalog.pg_options_to_table(v.options) o
    where o.option_name = 'security_invoker' and o.option_value::pg_catalog.bool)
  group by v.oid`

// Policies of a parent apply to reads through it, not to direct reads of its partitions and child tables.
const unguarded = sql`
  select pn.nspname || '.' || p.relname as parent,
    pg_catalog.json_agg(cn.nspname || '.' || c.relname order by cn.nspname, c.relname) as children
  from unguarded_children u
  join pg_catalog.pg_class c on c.oid = u.oid
  join exposed cn on cn.oid = c.relnamespace
  join pg_catalog.pg_class p on p.oid = u.guarded
  join pg_catalog.pg_namespace pn on pn.oid = p.relnamespace
  where not c.relrowsecurity
  group by pn.nspname, p.relname`

const listOf = (query: Sql): Sql =>
  sql`(select coalesce(pg_catalog.json_agg(pg_catalog.row_to_json(x)), '[]') from (${query}) x)`

/** Which objects to describe: `only` these, or all, except `without`. */
export type ObjectSelection = { without: readonly number[]; only?: readonly number[] }

const isSelected = (oid: Sql, { without, only }: ObjectSelection): Sql =>
  sql`${oid} <> all(${without}::pg_catalog.oid[])${only ? sql` and ${oid} = any(${only}::pg_catalog.oid[])` : EMPTY}`

/** Every object that catalogueQuery() would describe. */
export const objectsQuery = (schemas: readonly string[]): Sql => sql`
  select c.oid::pg_catalog.int8 as oid, n.nspname || '.' || c.relname as name
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  where n.nspname::text = any(${schemas}::text[]) and c.relkind in ('r', 'p', 'v', 'm', 'f')
  union all
  select p.oid::pg_catalog.int8, n.nspname || '.' || p.proname
  from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
  where n.nspname::text = any(${schemas}::text[])`

/** The whole shape of the exposed schemas as one JSON text. */
export const catalogueQuery = (schemas: readonly string[], selection: ObjectSelection): Sql => sql`
  with recursive exposed as (
    select n.oid, n.nspname, n.nspname as name, pg_catalog.array_position(${schemas}::text[], n.nspname::text) as rank
    from pg_catalog.pg_namespace n
    where n.nspname::text = any(${schemas}::text[])
  ), who as (
    select (select r.oid from pg_catalog.pg_roles r where r.rolname = 'svc_anon') as anon,
           (select r.oid from pg_catalog.pg_roles r where r.rolname = 'svc_authenticated') as authenticated
  ), unguarded_children(oid, guarded) as (
    select i.inhrelid, i.inhparent from pg_catalog.pg_inherits i
    join pg_catalog.pg_class p on p.oid = i.inhparent and p.relrowsecurity
    union
    select i.inhrelid, u.guarded from unguarded_children u join pg_catalog.pg_inherits i on i.inhparent = u.oid
  ), relations as materialized (
    select c.oid, s.oid as namespace, s.name as schema, s.rank, c.relname as name, c.relkind as kind,
      c.relrowsecurity as rls, c.relhassubclass as parent, c.reloptions as options,
      coalesce(w.fdwhandler <> 0, false) as has_handler
    from (
      select s.oid, s.name, s.rank from exposed s
      union all select n.oid, n.nspname, null from pg_catalog.pg_namespace n where n.nspname = 'svc'
    ) s
    join pg_catalog.pg_class c on c.relnamespace = s.oid and (s.rank is not null or c.relname = 'objects')
    left join pg_catalog.pg_foreign_table f on f.ftrelid = c.oid
    left join pg_catalog.pg_foreign_server v on v.oid = f.ftserver
    left join pg_catalog.pg_foreign_data_wrapper w on w.oid = v.srvfdw
    where c.relkind in ('r', 'p', 'v', 'm', 'f') and ${isSelected(sql`c.oid`, selection)}
      and (c.relrowsecurity or c.oid not in (select u.oid from unguarded_children u))
      and not ${ownedByExtension(sql`'pg_catalog.pg_class'::pg_catalog.regclass`, sql`c.oid`)}
  ), routines as materialized (
    select p.*, s.name as schema, s.rank,
      coalesce(p.proallargtypes, p.proargtypes::pg_catalog.oid[]) as all_types
    from exposed s
    join pg_catalog.pg_proc p on p.pronamespace = s.oid
    join pg_catalog.pg_language l on l.oid = p.prolang
    where p.prokind = 'f' and ${isSelected(sql`p.oid`, selection)} and l.lanname not in ('c', 'internal')
      and p.prorettype not in ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)
      -- Of anyelement and the like JSON does not say which type is meant.
      and not exists (select from pg_catalog.pg_type t where t.oid = any(p.proargtypes) and t.typtype = 'p')
      and not ${ownedByExtension(sql`'pg_catalog.pg_proc'::pg_catalog.regclass`, sql`p.oid`)}
  ), used_types as materialized (
    select a.atttypid as oid, a.atttypmod as modifier
    from relations t
    join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
    union
    select u.type, -1 from routines p cross join pg_catalog.unnest(p.all_types || p.prorettype) as u(type)
  ), domains(oid, base, modifier, not_null) as (
    select t.oid, t.typbasetype, t.typtypmod, t.typnotnull
    from pg_catalog.pg_type t
    where t.typtype = 'd' and t.oid in (select u.oid from used_types u)
    union all
    select d.oid, t.typbasetype, t.typtypmod, d.not_null or t.typnotnull
    from domains d
    join pg_catalog.pg_type t on t.oid = d.base and t.typtype = 'd'
  ), checked_types(oid) as (
    -- Domains whose checks call such functions, and the types made of them: domains, arrays, composites, ranges.
    select k.contypid
    from pg_catalog.pg_constraint k
    join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass and d.objid = k.oid
      and d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
    join pg_catalog.pg_proc f on f.oid = d.refobjid and f.provolatile <> 'i'
      and f.pronamespace <> 'svc'::pg_catalog.regnamespace
    join pg_catalog.pg_language l on l.oid = f.prolang and l.lanname not in ('c', 'internal')
    where k.contypid <> 0
    union
    select made.oid from checked_types c cross join lateral (
      select t.oid from pg_catalog.pg_type t where t.typbasetype = c.oid
      union all select t.typarray from pg_catalog.pg_type t where t.oid = c.oid and t.typarray <> 0
      union all select r.rngtypid from pg_catalog.pg_range r where r.rngsubtype = c.oid
      union all select x.reltype from pg_catalog.pg_attribute a
        join pg_catalog.pg_class x on x.oid = a.attrelid and x.relkind = 'c' where a.atttypid = c.oid
    ) as made
  ), user_code(relation) as materialized (
    -- Policies, defaults and checks that call functions of the operator with possible side effects.
    select coalesce(p.polrelid, v.adrelid, k.conrelid)
    from pg_catalog.pg_proc f
    join pg_catalog.pg_language l on l.oid = f.prolang and l.lanname not in ('c', 'internal')
    join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.refobjid = f.oid
    left join pg_catalog.pg_policy p
      on d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass and p.oid = d.objid
    left join pg_catalog.pg_attrdef v
      on d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass and v.oid = d.objid
    left join pg_catalog.pg_constraint k
      on d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass and k.oid = d.objid
    where f.provolatile <> 'i' and f.pronamespace <> 'svc'::pg_catalog.regnamespace
      and d.classid in ('pg_catalog.pg_policy'::pg_catalog.regclass, 'pg_catalog.pg_attrdef'::pg_catalog.regclass,
        'pg_catalog.pg_constraint'::pg_catalog.regclass)
    union all
    select a.attrelid from checked_types c join pg_catalog.pg_attribute a on a.atttypid = c.oid and not a.attisdropped
  ), reads(view, relation) as (
    select t.oid, d.refobjid
    from relations t
    join pg_catalog.pg_rewrite r on r.ev_class = t.oid
    join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass and d.objid = r.oid
      and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid <> r.ev_class
    where t.kind in ('v', 'm')
    union
    select w.view, d.refobjid
    from reads w
    join pg_catalog.pg_class c on c.oid = w.relation and c.relkind = 'v'
    join pg_catalog.pg_rewrite r on r.ev_class = c.oid
    join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass and d.objid = r.oid
      and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid <> r.ev_class
  )
  select pg_catalog.json_build_object(
    'serverVersion', pg_catalog.current_setting('server_version_num')::pg_catalog.int4,
    'extensions', ${listOf(sql`
      select e.extname as name, e.extversion as version, n.nspname as schema
      from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace`)},
    'callerIds', pg_catalog.to_json(svc.caller_ids()),
    'types', ${listOf(types)},
    'tables', ${listOf(tables)},
    'foreignKeys', ${listOf(foreignKeys)},
    'checks', ${listOf(checks)},
    'indexes', ${listOf(indexes)},
    'policies', ${listOf(policies)},
    'functions', ${listOf(functions)},
    'leaks', ${listOf(leaks)},
    'unguarded', ${listOf(unguarded)})::text`
