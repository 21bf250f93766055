import { rfc3339, type Sql, sql } from '../../db/sql.ts'

export const userById = (id: string): Sql => sql`
  select id::text, coalesce(email, '') as email, is_anonymous as "isAnonymous" from svc.users where id = ${id}::uuid`

export type NewImpersonation = {
  tokenHash: string
  adminTokenId: string
  subject: string
  write: boolean
  seconds: number
  /** It may write only while the dashboard of this token is unlocked. */
  isLockable: boolean
}

export const forgetEnded: Sql = sql`delete from svc.impersonations where expires_at < now()`

/** Never beyond the administrator's own token. Inserts nothing when that has ended meanwhile, or the dashboard is locked. */
export const insertImpersonation = (made: NewImpersonation): Sql => sql`
  insert into svc.impersonations (token_hash, admin_token_id, subject, may_write, expires_at)
  select ${made.tokenHash}, a.id, ${made.subject}::jsonb, ${made.write},
    least(a.expires_at, now() + make_interval(secs => ${made.seconds}),
      case when ${made.write && made.isLockable} then a.unlocked_until end)
  from svc.admin_tokens a
  where a.id = ${made.adminTokenId}::uuid and a.expires_at > now()
    and (not ${made.write && made.isLockable}::boolean or a.unlocked_until > now())
  for key share
  returning id::text, ${rfc3339(sql`expires_at`)} as "expiresAt"`

export const findImpersonation = (tokenHash: string): Sql => sql`
  select i.id::text, i.admin_token_id::text as "adminTokenId", i.subject, i.may_write as "mayWrite",
    extract(epoch from i.expires_at)::float8 as "expiresAt", a.admin_id::text as "adminId", d.email
  from svc.impersonations i join svc.admin_tokens a on a.id = i.admin_token_id
  left join svc.admins d on d.id = a.admin_id
  where i.token_hash = ${tokenHash} and i.expires_at > now() and a.expires_at > now()`
