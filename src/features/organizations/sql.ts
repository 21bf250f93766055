import { type Sql, sql } from '../../db/sql.ts'

export type Organization = { id: string; name: string; role: string; created_at: string }
export type Member = { user_id: string; email: string; role: string; created_at: string }
export type Invite = { id: string; email: string; role: string; created_at: string; expires_at: string }

const organization = sql`o.id::text, o.name, m.role, svc.iso_utc(o.created_at) as created_at`

export const organizationsOf = (userId: string): Sql => sql`
  select ${organization} from svc.members m join svc.organizations o on o.id = m.org_id
  where m.user_id = ${userId}::uuid order by o.created_at, o.id`

export const organizationOf = (orgId: string, userId: string): Sql => sql`
  select ${organization} from svc.members m join svc.organizations o on o.id = m.org_id
  where m.org_id = ${orgId}::uuid and m.user_id = ${userId}::uuid`

/** Whatever changes who is a member, or of which role, holds this lock: the rules are judged with the write. */
export const lockOrganization = (orgId: string): Sql =>
  sql`select id::text from svc.organizations where id = ${orgId}::uuid for no key update`

export const roleOf = (orgId: string, userId: string): Sql =>
  sql`select role from svc.members where org_id = ${orgId}::uuid and user_id = ${userId}::uuid`

export const countOrganizations = (userId: string): Sql =>
  sql`select count(*)::int as count from svc.members where user_id = ${userId}::uuid`

export const countMembers = (orgId: string): Sql =>
  sql`select count(*)::int as count from svc.members where org_id = ${orgId}::uuid`

export const countOwners = (orgId: string): Sql =>
  sql`select count(*)::int as count from svc.members where org_id = ${orgId}::uuid and role = 'owner'`

export const countInvites = (orgId: string): Sql =>
  sql`select count(*)::int as count from svc.org_invites where org_id = ${orgId}::uuid and expires_at > now()`

export const insertOrganization = (name: string): Sql =>
  sql`insert into svc.organizations (name) values (${name}) returning id::text`

export const renameOrganization = (orgId: string, name: string): Sql =>
  sql`update svc.organizations set name = ${name} where id = ${orgId}::uuid`

export const deleteOrganization = (orgId: string): Sql => sql`delete from svc.organizations where id = ${orgId}::uuid`

export const insertMember = (orgId: string, userId: string, role: string): Sql => sql`
  insert into svc.members (org_id, user_id, role) values (${orgId}::uuid, ${userId}::uuid, ${role})
  on conflict (org_id, user_id) do nothing`

export const setRole = (orgId: string, userId: string, role: string): Sql =>
  sql`update svc.members set role = ${role} where org_id = ${orgId}::uuid and user_id = ${userId}::uuid`

export const deleteMember = (orgId: string, userId: string): Sql =>
  sql`delete from svc.members where org_id = ${orgId}::uuid and user_id = ${userId}::uuid`

export const membersOf = (orgId: string): Sql => sql`
  select m.user_id::text, coalesce(u.email, '') as email, m.role, svc.iso_utc(m.created_at) as created_at
  from svc.members m join svc.users u on u.id = m.user_id
  where m.org_id = ${orgId}::uuid order by m.created_at, m.user_id`

const invite = sql`id::text, email, role, svc.iso_utc(created_at) as created_at, svc.iso_utc(expires_at) as expires_at`

export const invitesOf = (orgId: string): Sql => sql`
  select ${invite} from svc.org_invites where org_id = ${orgId}::uuid and expires_at > now() order by created_at, id`

export const openInvite = (orgId: string, email: string): Sql => sql`
  select ${invite} from svc.org_invites
  where org_id = ${orgId}::uuid and email = ${email} and expires_at > now()`

/** A new invitation of an address replaces the earlier one. */
export const insertInvite = (given: {
  orgId: string
  email: string
  role: string
  hash: string
  invitedBy: string
  seconds: number
}): Sql => sql`
  insert into svc.org_invites (org_id, email, role, hash, invited_by, expires_at)
  values (${given.orgId}::uuid, ${given.email}, ${given.role}, ${given.hash}, ${given.invitedBy}::uuid,
    now() + make_interval(secs => ${given.seconds}::float8))
  on conflict (org_id, email) do update set role = excluded.role, hash = excluded.hash, created_at = now(),
    invited_by = excluded.invited_by, expires_at = excluded.expires_at
  returning ${invite}`

export const deleteInvite = (orgId: string, inviteId: string): Sql =>
  sql`delete from svc.org_invites where org_id = ${orgId}::uuid and id = ${inviteId}::uuid returning role`

export const inviteByHash = (hash: string): Sql => sql`
  select org_id::text as "orgId", email, role, invited_by::text as "invitedBy"
  from svc.org_invites where hash = ${hash} and expires_at > now()`

/** Of parallel calls one gets a row. */
export const spendInvite = (hash: string): Sql =>
  sql`delete from svc.org_invites where hash = ${hash} and expires_at > now()`

export const verifiedEmail = (userId: string): Sql =>
  sql`select email from svc.users where id = ${userId}::uuid and email_verified_at is not null`

/** Changes no row unless the user of the session is a member. */
export const setActive = (sessionId: string, orgId: string | null): Sql => sql`
  update svc.sessions s set org_id = ${orgId}::uuid where s.id = ${sessionId}::uuid and (${orgId}::uuid is null
    or exists (select from svc.members m where m.org_id = ${orgId}::uuid and m.user_id = s.user_id))`

export const expiredInvites = { table: sql`svc.org_invites`, isOver: sql`expires_at < now()` }
