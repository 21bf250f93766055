import type { AdminRole } from '../../core/identity.ts'
import { rfc3339, type Sql, sql } from '../../db/sql.ts'

export const adminByEmail = (email: string): Sql => sql`
  select id::text, password_hash as hash from svc.admins where email = ${email}`

/** For a transaction that locked the administrator's row. */
export const insertNamedToken = (tokenHash: string, seconds: number, adminId: string, hasFactor: boolean): Sql => sql`
  insert into svc.admin_tokens (token_hash, expires_at, via, admin_id, second_factor_at)
  values (${tokenHash}, now() + make_interval(secs => ${seconds}), 'name', ${adminId}::uuid,
    case when ${hasFactor}::boolean then now() end)`

const ADMIN = sql`json_build_object('id', a.id, 'name', a.name, 'email', a.email, 'role', a.role, 'mfa',
  a.totp_confirmed_at is not null or exists (select from svc.admin_passkeys p where p.admin_id = a.id),
  'createdAt', ${rfc3339(sql`a.created_at`)})`

export const selectAdmins: Sql = sql`
  select json_build_object('items', coalesce(json_agg(${ADMIN} order by a.created_at, a.id), '[]'), 'count', count(*))::text
  from svc.admins a`

export const adminRecord = (id: string): Sql => sql`select ${ADMIN}::text from svc.admins a where a.id = ${id}::uuid`

/** Orders changes of administrators, so that two owners cannot go at once. */
export const lockAdmins: Sql = sql`lock table svc.admins in share row exclusive mode`

/** Waits for sign-ins that verified the password, whose tokens then exist and end with the others. */
export const lockAdmin = (id: string): Sql => sql`
  select name, email, role, (select count(*)::int from svc.admins where role = 'owner') as owners
  from svc.admins where id = ${id}::uuid for update`

/** Changes nothing when the address is taken. */
export const insertAdmin = (a: { id: string; name: string; email: string; hash: string; role: AdminRole }): Sql => sql`
  insert into svc.admins (id, name, email, password_hash, role)
  values (${a.id}::uuid, ${a.name}, ${a.email}, ${a.hash}, ${a.role}) on conflict (email) do nothing`

/** What is undefined stays. */
export const updateAdmin = (id: string, a: { name?: string; hash?: string; role?: AdminRole }): Sql => sql`
  update svc.admins set name = coalesce(${a.name ?? null}, name), role = coalesce(${a.role ?? null}, role),
    password_hash = coalesce(${a.hash ?? null}, password_hash), updated_at = now()
  where id = ${id}::uuid`

export const deleteAdmin = (id: string): Sql => sql`delete from svc.admins where id = ${id}::uuid`

export const endTokensOf = (adminId: string): Sql => sql`
  with gone as (delete from svc.admin_tokens where admin_id = ${adminId}::uuid returning id)
  select svc.revoke('admin', id::text) from gone`
