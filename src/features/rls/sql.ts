import type { Table } from '../../db/schema/snapshot.ts'
import { COMMA, Ident, join, operatorSql, type Sql, sql } from '../../db/sql.ts'

export type PolicyCommandRow = 'ALL' | 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE'

export type NewPolicy = {
  name: string
  command: PolicyCommandRow
  permissive: boolean
  /** Empty = PUBLIC. */
  roles: readonly string[]
  using: string | undefined
  withCheck: string | undefined
}

type TableName = { readonly schema: string; readonly name: string }

const commandName = sql`case p.polcmd when 'r' then 'SELECT' when 'a' then 'INSERT' when 'w' then 'UPDATE'
  when 'd' then 'DELETE' else 'ALL' end`

const RECORD = sql`json_build_object(
      'tableSchema', n.nspname, 'tableName', c.relname, 'policyName', p.polname,
      'command', ${commandName},
      'permissive', case when p.polpermissive then 'PERMISSIVE' else 'RESTRICTIVE' end,
      'roles', (select coalesce(json_agg(r.rolname order by r.rolname), '[]') from pg_roles r where r.oid = any(p.polroles)),
      'usingExpr', pg_get_expr(p.polqual, p.polrelid),
      'withCheckExpr', pg_get_expr(p.polwithcheck, p.polrelid))`

const POLICIES = sql`pg_policy p join pg_class c on c.oid = p.polrelid join pg_namespace n on n.oid = c.relnamespace`

/** As JSON: the policies of the exposed schemas, or of one table. */
export const listPolicies = (schemas: readonly string[], table?: TableName): Sql => sql`
  select coalesce(json_agg(${RECORD} order by n.nspname, c.relname, p.polname), '[]')::text from ${POLICIES}
  where (n.nspname = any(${schemas}::text[]) or c.oid in ('svc.channels'::regclass, 'svc.objects'::regclass))
    and not (c.oid = 'svc.objects'::regclass and p.polname = 'policies_buckets_only')
    ${table ? sql`and n.nspname = ${table.schema} and c.relname = ${table.name}` : sql``}`

export const onePolicy = ({ schema, name }: TableName, policy: string): Sql => sql`
  select ${RECORD}::text from ${POLICIES} where n.nspname = ${schema} and c.relname = ${name} and p.polname = ${policy}`

export const rlsStatus = (schema: string, name: string): Sql => sql`
  select json_build_object('rlsEnabled', c.relrowsecurity, 'forceRls', c.relforcerowsecurity)::text
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = ${schema} and c.relname = ${name} and c.relkind in ('r', 'p')`

export const wasEnabled = (schema: string, name: string): Sql => sql`
  select json_build_object('rlsEnabled', c.relrowsecurity)::text
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = ${schema} and c.relname = ${name}`

/** The first of the schemas that has a table of this name. */
export const schemaOf = (schemas: readonly string[], name: string): Sql => sql`
  select n.nspname::text as schema
  from unnest(${schemas}::text[]) with ordinality as s(name, rank)
  join pg_namespace n on n.nspname = s.name
  join pg_class c on c.relnamespace = n.oid and c.relname = ${name}
  order by s.rank limit 1`

/** Identifiers are checked to be plain names before they come here. */
export const createPolicy = (table: Ident, policy: NewPolicy): Sql => {
  const roles = policy.roles.map((role) => (isPublic(role) ? sql`public` : sql`${new Ident(role)}`))
  return sql`create policy ${new Ident(policy.name)} on ${table} as ${policy.permissive ? sql`permissive` : sql`restrictive`}
    for ${COMMANDS[policy.command]} to ${roles.length === 0 ? sql`public` : join(roles, COMMA)}${clause(sql` using `, policy.using)}${clause(sql` with check `, policy.withCheck)}`
}

const clause = (word: Sql, expression: string | undefined): Sql =>
  expression === undefined ? sql`` : sql`${word}(${operatorSql(expression)})`

const isPublic = (role: string): boolean => role.toLowerCase() === 'public'

const COMMANDS: Readonly<Record<PolicyCommandRow, Sql>> = {
  ALL: sql`all`,
  SELECT: sql`select`,
  INSERT: sql`insert`,
  UPDATE: sql`update`,
  DELETE: sql`delete`,
}

export const dropPolicy = (table: Ident, name: string): Sql => sql`drop policy ${new Ident(name)} on ${table}`

export const switchRls = (table: Ident, on: boolean): Sql =>
  sql`alter table ${table} ${on ? sql`enable` : sql`disable`} row level security`

/**
 * Parses the text without running it. At this position the grammar accepts only one expression, neither a query nor a
 * further clause, and a parenthesis follows as in CREATE POLICY, so errors read the same.
 */
export const parseExpression = (expression: string): Sql =>
  sql`explain select nullif(true, true and ${operatorSql(expression)})`

export type StoredPolicy = {
  name: string
  command: PolicyCommandRow
  permissive: boolean
  using: string | null
  check: string | null
}

/** What `policiesFor` answers. */
export type RowSecurity = { rls: boolean; policies: StoredPolicy[] }

/** As JSON: row security as it is now, and the policies that apply to the role, in PostgreSQL's own order. */
export const policiesFor = (table: Table, role: string): Sql => sql`
  select json_build_object('rls', c.relrowsecurity, 'policies', (
    select coalesce(json_agg(json_build_object('name', p.polname, 'command', ${commandName}, 'permissive', p.polpermissive,
      'using', pg_get_expr(p.polqual, p.polrelid), 'check', pg_get_expr(p.polwithcheck, p.polrelid)) order by p.polname), '[]')
    from pg_policy p
    where p.polrelid = c.oid and (p.polroles @> '{0}'
      or exists (select from unnest(p.polroles) as o(oid) where pg_has_role(${role}, o.oid, 'USAGE')))))::text
  from pg_class c where c.oid = ${table.oid}::oid`

/** false also for names that no role has. */
export const isMemberOfAny = (role: string, roles: readonly string[]): Sql => sql`
  select exists (select from pg_roles r where r.rolname = any(${roles}::text[]) and pg_has_role(${role}, r.oid, 'USAGE'))::text`

export const emailOfUser = (id: string): Sql =>
  sql`select coalesce(email, '') as email from svc.users where id = ${id}::uuid`

/** By id or address. */
export const userNamed = (name: string): Sql => sql`
  select id::text, coalesce(email, '') as email from svc.users where email = ${name} or id::text = ${name}`

export const selectOldestUsers = (count: number): Sql => sql`
  select coalesce(email, id::text) as name from svc.users order by created_at, id limit ${count}`

/** Policies may call any function, so writes are refused. */
export const readOnly: Sql = sql`select pg_catalog.set_config('transaction_read_only', 'on', true)`

/** The last image of a deleted row, from the change log. */
export const lastImage = (table: Table, key: string): Sql => sql`
  select coalesce(old_record, record)::text from svc.changes_of(${table.oid}::oid, ${key}) order by id desc limit 1`
