import type pg from 'pg'
import { readRows } from './source.ts'

/** Which objects of a database are its app's: those outside of the schemas and tables of the backend that it comes from. */
type Scope = {
  /** A condition over a schema's name `n.nspname`. */
  schemas: string
  /** A condition over a table's name `c.relname`. */
  tables: string
  /** Over `n.nspname` and `p.proname`: functions of the app in a schema of the backend. */
  functions?: string
}

export type SourceColumn = {
  name: string
  type: string
  notNull: boolean
  default: string | null
  identity: '' | 'a' | 'd'
  generated: '' | 's' | 'v'
  collation: string | null
  isLocal: boolean
  comment: string | null
}
type Named = { schema: string; name: string }
export type SourceTable = Named & {
  oid: number
  kind: 'r' | 'p'
  rls: boolean
  forced: boolean
  isUnlogged: boolean
  partitionKey: string | null
  bound: string | null
  parents: Named[] | null
  comment: string | null
  columns: SourceColumn[]
  key: string[] | null
}
type SourceConstraint = {
  schema: string
  table: string
  name: string
  type: 'p' | 'u' | 'c' | 'x' | 'f'
  text: string
  isValid: boolean
  target: string | null
}
export type SourcePolicy = {
  schema: string
  table: string
  name: string
  isPermissive: boolean
  command: 'all' | 'select' | 'insert' | 'update' | 'delete'
  roles: string[]
  using: string | null
  check: string | null
}
type SourceGrant = { on: string; privilege: string; grantee: string; columns: string | null; kind: string }
type SourceType = Named & {
  kind: 'enum' | 'domain' | 'composite' | 'range'
  text: string
}
type SourceSequence = Named & { text: string; last: string | null; ownedBy: string | null; isIdentity: boolean }
export type SourceFunction = Named & {
  signature: string
  text: string
  language: string
  isDefiner: boolean
  body: string
  kind: string
  isOfView: boolean
}
type SourceView = Named & { kind: 'v' | 'm'; text: string; options: string[] | null; comment: string | null }
export type SourceTrigger = {
  schema: string
  table: string
  name: string
  text: string
  state: 'O' | 'D' | 'A' | 'R'
  functionSchema: string
}

export type Catalogue = {
  schemas: { name: string }[]
  types: SourceType[]
  sequences: SourceSequence[]
  tables: SourceTable[]
  constraints: SourceConstraint[]
  indexes: { schema: string; table: string; name: string; text: string }[]
  functions: SourceFunction[]
  views: SourceView[]
  triggers: SourceTrigger[]
  policies: SourcePolicy[]
  grants: SourceGrant[]
  others: { kind: string; name: string }[]
}

/** Not what an extension brought. */
const own = (catalog: string, oid: string): string =>
  `not exists (select from pg_depend dep where dep.classid = '${catalog}'::regclass and dep.objid = ${oid} and dep.deptype = 'e')`

const NOT_SYSTEM = `n.nspname !~ '^pg_' and n.nspname <> 'information_schema'`

export async function readCatalogue(client: pg.Client, scope: Scope): Promise<Catalogue> {
  const mine = `${NOT_SYSTEM} and (${scope.schemas})`
  const table = `${mine} and (${scope.tables}) and ${own('pg_class', 'c.oid')}`
  const read = <T>(query: string): Promise<T[]> => readRows<T>(client, query)
  return {
    schemas: await read(
      `select n.nspname as name from pg_namespace n where ${mine} and ${own('pg_namespace', 'n.oid')} order by 1`,
    ),
    types: await read(typesQuery(mine)),
    sequences: await read(sequencesQuery(table)),
    tables: await read(tablesQuery(`${table} and c.relkind in ('r', 'p')`)),
    constraints: await read(`
      select n.nspname as schema, c.relname as table, o.conname as name, o.contype as type, pg_get_constraintdef(o.oid) as text,
        o.convalidated as "isValid", o.confrelid::regclass::text as target
      from pg_constraint o join pg_class c on c.oid = o.conrelid join pg_namespace n on n.oid = c.relnamespace
      where ${table} and c.relkind in ('r', 'p') and o.contype in ('p', 'u', 'c', 'x', 'f') and o.conparentid = 0 and o.conislocal order by o.oid`),
    indexes: await read(`
      select n.nspname as schema, c.relname as table, i.relname as name, pg_get_indexdef(i.oid) as text
      from pg_index x join pg_class i on i.oid = x.indexrelid join pg_class c on c.oid = x.indrelid join pg_namespace n on n.oid = c.relnamespace
      where ${table} and c.relkind in ('r', 'p', 'm') and not i.relispartition and x.indisvalid
        and not exists (select from pg_constraint o where o.conindid = i.oid and o.contype in ('p', 'u', 'x')) order by i.oid`),
    functions: await read(`
      select n.nspname as schema, p.proname as name, p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')' as signature,
        case when p.prokind in ('f', 'p') then pg_get_functiondef(p.oid) else '' end as text, l.lanname as language, p.prosecdef as "isDefiner",
        coalesce(p.prosrc, '') as body, p.prokind as kind, exists (select from pg_type t join pg_class v on v.oid = t.typrelid and v.relkind in ('v', 'm')
          where t.oid = p.prorettype or t.oid = any (p.proargtypes)) as "isOfView"
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
      where (${mine} or (${scope.functions ?? 'false'})) and ${own('pg_proc', 'p.oid')} order by p.oid`),
    views: await read(`
      select n.nspname as schema, c.relname as name, c.relkind as kind, pg_get_viewdef(c.oid) as text, c.reloptions as options,
        obj_description(c.oid, 'pg_class') as comment
      from pg_class c join pg_namespace n on n.oid = c.relnamespace where ${table} and c.relkind in ('v', 'm') order by c.oid`),
    triggers: await read(triggersQuery(`${table} and c.relkind in ('r', 'p', 'v')`)),
    policies: await read(policiesQuery(table)),
    grants: await read(grantsQuery(mine, table, scope.functions ?? 'false')),
    others: await read(othersQuery(mine, table)),
  }
}

export const tablesQuery = (where: string): string => `
  select c.oid::int8 as oid, n.nspname as schema, c.relname as name, c.relkind as kind, c.relrowsecurity as rls, c.relforcerowsecurity as forced,
    c.relpersistence = 'u' as "isUnlogged", case when c.relkind = 'p' then pg_get_partkeydef(c.oid) end as "partitionKey",
    case when c.relispartition then pg_get_expr(c.relpartbound, c.oid) end as bound, obj_description(c.oid, 'pg_class') as comment,
    (select json_agg(json_build_object('schema', pn.nspname, 'name', p.relname) order by i.inhseqno) from pg_inherits i
      join pg_class p on p.oid = i.inhparent join pg_namespace pn on pn.oid = p.relnamespace where i.inhrelid = c.oid) as parents,
    coalesce((select json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod), 'notNull', a.attnotnull,
        'default', pg_get_expr(d.adbin, d.adrelid), 'identity', a.attidentity, 'generated', a.attgenerated, 'isLocal', a.attislocal,
        'collation', case when a.attcollation <> t.typcollation then (select quote_ident(cn.nspname) || '.' || quote_ident(co.collname)
          from pg_collation co join pg_namespace cn on cn.oid = co.collnamespace where co.oid = a.attcollation) end,
        'comment', col_description(c.oid, a.attnum)) order by a.attnum)
      from pg_attribute a join pg_type t on t.oid = a.atttypid left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped), '[]') as columns,
    (select json_agg(a.attname order by k.place) from pg_index x cross join unnest(x.indkey::int2[]) with ordinality as k(number, place)
      join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.number where x.indrelid = c.oid and x.indisprimary) as key
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where ${where} order by c.oid`

export const triggersQuery = (where: string): string => `
  select n.nspname as schema, c.relname as table, t.tgname as name, pg_get_triggerdef(t.oid) as text, t.tgenabled as state,
    fn.nspname as "functionSchema"
  from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
  join pg_proc f on f.oid = t.tgfoid join pg_namespace fn on fn.oid = f.pronamespace
  where ${where} and not t.tgisinternal and t.tgparentid = 0 order by t.oid`

export const policiesQuery = (where: string): string => `
  select n.nspname as schema, c.relname as table, o.polname as name, o.polpermissive as "isPermissive",
    case o.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end as command,
    (select json_agg(case when r.role = 0 then 'public' else pg_get_userbyid(r.role) end) from unnest(o.polroles) r(role)) as roles,
    pg_get_expr(o.polqual, o.polrelid) as using, pg_get_expr(o.polwithcheck, o.polrelid) as check
  from pg_policy o join pg_class c on c.oid = o.polrelid join pg_namespace n on n.oid = c.relnamespace where ${where} order by c.oid, o.polname`

const typesQuery = (mine: string): string => `
  select n.nspname as schema, t.typname as name,
    case t.typtype when 'e' then 'enum' when 'd' then 'domain' when 'c' then 'composite' else 'range' end as kind,
    case t.typtype
      when 'e' then '(' || coalesce((select string_agg(quote_literal(e.enumlabel), ', ' order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid), '') || ')'
      when 'c' then '(' || coalesce((select string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum)
        from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped), '') || ')'
      when 'r' then (select '(subtype = ' || format_type(r.rngsubtype, null) || ')' from pg_range r where r.rngtypid = t.oid)
      else format_type(t.typbasetype, t.typtypmod) || coalesce(' default ' || t.typdefault, '') || case when t.typnotnull then ' not null' else '' end
        || coalesce((select string_agg(' constraint ' || quote_ident(o.conname) || ' ' || pg_get_constraintdef(o.oid), '' order by o.conname)
          from pg_constraint o where o.contypid = t.oid and o.contype = 'c'), '')
    end as text
  from pg_type t join pg_namespace n on n.oid = t.typnamespace
  where ${mine} and ${own('pg_type', 't.oid')} and (t.typtype in ('e', 'd', 'r') or (t.typtype = 'c' and exists (
    select from pg_class k where k.oid = t.typrelid and k.relkind = 'c'))) order by t.oid`

const sequencesQuery = (table: string): string => `
  select n.nspname as schema, c.relname as name, format('as %s increment %s minvalue %s maxvalue %s start %s cache %s%s', format_type(s.seqtypid, null),
      s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, case when s.seqcycle then ' cycle' else '' end) as text,
    pg_sequence_last_value(c.oid)::text as last,
    (select format('%s.%I', d.refobjid::regclass, a.attname) from pg_depend d join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
      where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i') limit 1) as "ownedBy",
    exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i') as "isIdentity"
  from pg_class c join pg_sequence s on s.seqrelid = c.oid join pg_namespace n on n.oid = c.relnamespace where ${table} and c.relkind = 'S' order by c.oid`

/** Of every role but the owner's own. */
const grantsQuery = (mine: string, table: string, functions: string): string => `
  select g.* from (
    select case c.relkind when 'S' then 'sequence' else 'table' end as kind, c.oid::regclass::text as on, x.privilege_type as privilege,
      x.grantee as grantee_oid, c.relowner as owner, null::text as columns
    from pg_class c join pg_namespace n on n.oid = c.relnamespace cross join aclexplode(c.relacl) x where ${table} and c.relkind in ('r', 'p', 'v', 'm', 'S')
    union all
    select 'table', c.oid::regclass::text, x.privilege_type, x.grantee, c.relowner, string_agg(quote_ident(a.attname), ', ' order by a.attnum)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid and not a.attisdropped
      cross join aclexplode(a.attacl) x where ${table} group by c.oid, x.privilege_type, x.grantee, c.relowner
    union all
    select case p.prokind when 'p' then 'procedure' else 'function' end, p.oid::regprocedure::text, x.privilege_type, x.grantee, p.proowner, null
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
    where (${mine} or (${functions})) and ${own('pg_proc', 'p.oid')} and p.prokind in ('f', 'p')
    union all
    select 'schema', quote_ident(n.nspname), x.privilege_type, x.grantee, n.nspowner, null
    from pg_namespace n cross join aclexplode(n.nspacl) x where ${mine}
  ) a cross join lateral (select a.kind, a.on, a.privilege, case when a.grantee_oid = 0 then 'public' else pg_get_userbyid(a.grantee_oid) end as grantee, a.columns) g
  where a.grantee_oid <> a.owner order by g.kind, g.on, g.grantee, g.privilege`

/** What is listed, because it has no equal or takes a superuser. */
const othersQuery = (mine: string, table: string): string => `
  select 'aggregate' as kind, p.oid::regprocedure::text as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where ${mine} and ${own('pg_proc', 'p.oid')} and p.prokind in ('a', 'w')
  union all select 'operator', o.oid::regoperator::text from pg_operator o join pg_namespace n on n.oid = o.oprnamespace where ${mine} and ${own('pg_operator', 'o.oid')}
  union all select 'text search configuration', t.cfgname from pg_ts_config t join pg_namespace n on n.oid = t.cfgnamespace where ${mine} and ${own('pg_ts_config', 't.oid')}
  union all select 'collation', t.collname from pg_collation t join pg_namespace n on n.oid = t.collnamespace where ${mine} and ${own('pg_collation', 't.oid')}
  union all select 'foreign table', c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace where ${table} and c.relkind = 'f'
  union all select 'rule', r.rulename || ' on ' || c.oid::regclass from pg_rewrite r join pg_class c on c.oid = r.ev_class
    join pg_namespace n on n.oid = c.relnamespace where ${table} and r.rulename <> '_RETURN'
  union all select 'event trigger', e.evtname from pg_event_trigger e join pg_proc p on p.oid = e.evtfoid join pg_namespace n on n.oid = p.pronamespace
    where ${mine} and ${own('pg_event_trigger', 'e.oid')}
  union all select 'foreign server', s.srvname from pg_foreign_server s where ${own('pg_foreign_server', 's.oid')}`
