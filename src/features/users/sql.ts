import { type Sql, sql } from '../../db/sql.ts'
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

/** What `updateUser` changes, under the names of the API. */
export const changeable = (id: string): Sql => sql`
  select json_build_object('email', email, 'email_verified', email_verified_at is not null,
    'metadata', metadata, 'app_metadata', app_metadata)::text
  from svc.users where id = ${id}::uuid`

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

export const sessions: Sql = sql`select coalesce(json_agg(json_build_object(
    'id', s.id, 'aal', s.aal, 'user_agent', s.user_agent, 'ip_address', s.ip_address,
    'created_at', svc.iso_utc(s.created_at), 'last_active_at', svc.iso_utc(s.last_active_at)
  ) order by s.last_active_at desc, s.id), '[]')
  from svc.sessions s where s.user_id = u.id and s.expires_at > now()`

export const factors: Sql = sql`select coalesce(json_agg(json_build_object('id', f.id, 'method', f.method, 'name', f.name,
    'created_at', svc.iso_utc(f.created_at)) order by f.created_at, f.id), '[]')
  from (
    select id::text, method, coalesce(phone, '') as name, created_at from svc.mfa_factors
    where user_id = u.id and confirmed_at is not null
    union all
    select credential_id, 'webauthn', display_name, created_at from svc.webauthn_credentials where user_id = u.id
  ) f`

export const organizations: Sql = sql`select coalesce(json_agg(json_build_object('id', o.id, 'name', o.name, 'role', m.role,
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
