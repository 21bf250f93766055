import { Ident, join, OR, type Sql, sql } from '../../db/sql.ts'
import { linkedIdentities } from '../../identity/linked-identities.ts'

type Page = { page: number; perPage: number; offset: number }

/** The page envelope, newest first. `search` is a case-insensitive part of the address. */
export function listUsers({ page, perPage, offset }: Page, search: string): Sql {
  const pattern = `%${search.trim().replace(/[\\%_]/g, '\\$&')}%`
  const matches = search.trim() === '' ? sql`true` : sql`u.email ilike ${pattern}`
  return sql`
    with matching as (select count(*) as total from svc.users u where ${matches}),
    shown as (
      select u as account, u.created_at, u.id from svc.users u where ${matches}
      order by u.created_at desc, u.id desc limit ${perPage} offset ${offset}
    )
    select json_build_object(
      'items', (select coalesce(json_agg(svc.user_json(account) order by created_at desc, id desc), '[]') from shown),
      'page', ${page}::int, 'perPage', ${perPage}::int, 'totalItems', total,
      'totalPages', ceil(total::numeric / ${perPage}::int)::int)::text
    from matching`
}

/** What is undefined stays; metadata are JSON texts. */
export const updateUser = (
  id: string,
  given: { email?: string; email_verified?: boolean; metadata?: string; appMetadata?: string },
): Sql => sql`
  with changed as (
    update svc.users set email = coalesce(${given.email ?? null}, email),
      email_verified_at = case ${given.email_verified ?? null}::boolean
        when true then coalesce(email_verified_at, now()) when false then null else email_verified_at end,
      metadata = coalesce(${given.metadata ?? null}::jsonb, metadata),
      app_metadata = coalesce(${given.appMetadata ?? null}::jsonb, app_metadata), updated_at = now()
    where id = ${id}::uuid returning id
  ), mailed as (
    -- Links in mails to the former address end with it.
    delete from svc.mail_tokens where user_id = ${id}::uuid and email <> ${given.email ?? null}
  )
  select svc.revoke('user', id::text) from changed`

export const setDisabled = (id: string, isDisabled: boolean): Sql => sql`
  update svc.users set disabled_at = case when ${isDisabled}::boolean then coalesce(disabled_at, now()) end,
    updated_at = now() where id = ${id}::uuid`

export const setUserPassword = (id: string, hash: string): Sql =>
  sql`update svc.users set password_hash = ${hash}, updated_at = now() where id = ${id}::uuid`

const ofUser = (id: string, list: Sql): Sql => sql`select (${list})::text from svc.users u where u.id = ${id}::uuid`

const sessions = sql`select coalesce(json_agg(json_build_object(
    'id', s.id, 'aal', s.aal, 'user_agent', s.user_agent, 'ip_address', s.ip_address,
    'created_at', svc.iso_utc(s.created_at), 'last_active_at', svc.iso_utc(s.last_active_at)
  ) order by s.last_active_at desc, s.id), '[]')
  from svc.sessions s where s.user_id = u.id and s.expires_at > now()`

const factors = sql`select coalesce(json_agg(json_build_object('id', f.id, 'method', f.method, 'name', f.name,
    'created_at', svc.iso_utc(f.created_at)) order by f.created_at, f.id), '[]')
  from (
    select id::text, method, coalesce(phone, '') as name, created_at from svc.mfa_factors
    where user_id = u.id and confirmed_at is not null
    union all
    select credential_id, 'webauthn', display_name, created_at from svc.webauthn_credentials where user_id = u.id
  ) f`

const organizations = sql`select coalesce(json_agg(json_build_object('id', o.id, 'name', o.name, 'role', m.role,
    'created_at', svc.iso_utc(m.created_at)) order by o.name, o.id), '[]')
  from svc.members m join svc.organizations o on o.id = m.org_id where m.user_id = u.id`

export const userProviders = (id: string): Sql => ofUser(id, linkedIdentities(sql`u.id`))
export const userOrganizations = (id: string): Sql => ofUser(id, organizations)
export const sessionsOf = (id: string): Sql => ofUser(id, sessions)
export const factorsOf = (id: string): Sql => ofUser(id, factors)

/** No row if the user has no such factor. */
export const removeFactor = (userId: string, factor: string): Sql => sql`
  with other as (
    delete from svc.mfa_factors where user_id = ${userId}::uuid and id::text = ${factor} returning 1
  ), passkey as (
    delete from svc.webauthn_credentials where user_id = ${userId}::uuid and credential_id = ${factor} returning 1
  )
  select 1 from other union all select 1 from passkey`

/** Backup codes stand for a factor. */
export const dropUselessCodes = (userId: string): Sql => sql`
  delete from svc.mfa_backup_codes c where c.user_id = ${userId}::uuid
    and not exists (select from svc.mfa_factors f where f.user_id = c.user_id and f.confirmed_at is not null)
    and not exists (select from svc.webauthn_credentials k where k.user_id = c.user_id)`

const all = (columns: Sql, from: Sql): Sql =>
  sql`(select coalesce(json_agg(to_json(x)), '[]') from (select ${columns} from ${from}) x)`

/** No hashes and no secrets. */
export const exportOf = (id: string): Sql => sql`
  select json_build_object('account', svc.user_json(u), 'sessions', (${sessions}), 'factors', (${factors}),
    'api_keys', ${all(sql`k.id, k.name, k.key_prefix, k.scope, k.allowed_tables, k.created_at, k.last_used_at, k.revoked_at`, sql`svc.api_keys k where k.user_id = u.id`)},
    'organizations', ${all(sql`o.id, o.name, m.role, m.created_at`, sql`svc.members m join svc.organizations o on o.id = m.org_id where m.user_id = u.id`)},
    'grants', ${all(sql`c.name as client, g.scope, g.tables, g.created_at`, sql`svc.oauth_grants g join svc.oauth_clients c on c.id = g.client where g.user_id = u.id`)},
    'files', ${all(sql`f.bucket, f.name, f.content_type, f.created_at`, sql`svc.objects f where f.owner = u.id`)}
  )::text from svc.users u where u.id = ${id}::uuid`

export type PointingTable = { schema: string; table: string; columns: string[]; is_readable: boolean }

/** Tables outside of `svc` with a foreign key of one column to svc.users, and whether the login that asks may read them. */
export const tablesPointingToUsers: Sql = sql`
  select n.nspname::text as schema, c.relname::text as table, to_json(array_agg(distinct a.attname::text)) as columns,
    pg_catalog.has_schema_privilege(n.oid, 'usage') and pg_catalog.has_table_privilege(c.oid, 'select') as is_readable
  from pg_catalog.pg_constraint k
  join pg_catalog.pg_class c on c.oid = k.conrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = k.conkey[1]
  where k.contype = 'f' and k.confrelid = 'svc.users'::regclass and cardinality(k.conkey) = 1 and n.nspname <> 'svc'
    and not c.relispartition
  group by n.oid, c.oid, n.nspname, c.relname order by 1, 2`

export function rowsPointingTo({ schema, table, columns }: PointingTable, userId: string): Sql {
  const conditions = columns.map((column) => sql`t.${new Ident(column)} = ${userId}::uuid`)
  return sql`select coalesce(json_agg(to_json(t)), '[]')::text from ${new Ident(schema)}.${new Ident(table)} t
    where ${join(conditions, OR)}`
}
