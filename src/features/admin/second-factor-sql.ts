import { type Sql, sql } from '../../db/sql.ts'

export type AdminFactor = {
  id: string
  email: string
  secret: string
  isConfirmed: boolean
  hasPasskey: boolean
  /** Being enrolled, and not for too long. */
  isPending: boolean
  lastStep: number
  /** Positive while locked. */
  lockedSeconds: number
  /** Seconds since 1970 by the database's clock, which all processes share. */
  epoch: number
}

export const lockFactor = (condition: Sql): Sql => sql`
  select id::text, email, coalesce(totp_secret, '') as secret, totp_confirmed_at is not null as "isConfirmed",
    exists (select from svc.admin_passkeys p where p.admin_id = svc.admins.id) as "hasPasskey",
    coalesce(totp_confirmed_at is null and totp_started_at > now() - interval '10 minutes', false) as "isPending",
    totp_last_step::float8 as "lastStep",
    coalesce(ceil(extract(epoch from locked_until - now())), 0)::int as "lockedSeconds",
    extract(epoch from clock_timestamp())::float8 as epoch
  from svc.admins where ${condition} for update`

export const startTotp = (id: string, sealed: string): Sql => sql`
  update svc.admins set totp_secret = ${sealed}, totp_started_at = now(), totp_last_step = 0 where id = ${id}::uuid`

export const confirmTotp = (id: string, tokenId: string): Sql[] => [
  sql`update svc.admins set totp_confirmed_at = now(), updated_at = now() where id = ${id}::uuid`,
  ...factorEnrolled(id, tokenId),
]

/** Tokens that were given without the factor end; the caller's has just proven it. Caches forget them all. */
export const factorEnrolled = (id: string, tokenId: string): Sql[] => [
  sql`select svc.revoke('admin', id::text) from svc.admin_tokens where admin_id = ${id}::uuid`,
  sql`delete from svc.admin_tokens where admin_id = ${id}::uuid and id <> ${tokenId}::uuid`,
  sql`update svc.admin_tokens set second_factor_at = now() where id = ${tokenId}::uuid`,
]

export const dropTotp = (id: string): Sql => sql`
  update svc.admins set totp_secret = null, totp_started_at = null, totp_confirmed_at = null, wrong_codes = 0, locked_until = null
  where id = ${id}::uuid`

export const spendAdminStep = (id: string, step: number): Sql => sql`
  update svc.admins set totp_last_step = ${step}::bigint, wrong_codes = 0, locked_until = null where id = ${id}::uuid`

export const countWrongAdminCode = (id: string, max: number, seconds: number): Sql => sql`
  update svc.admins set wrong_codes = case when wrong_codes + 1 >= ${max}::int then 0 else wrong_codes + 1 end,
    locked_until = case when wrong_codes + 1 >= ${max}::int then now() + make_interval(secs => ${seconds}::float8) end
  where id = ${id}::uuid`
