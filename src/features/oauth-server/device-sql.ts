import type { UserIdentity } from '../../core/identity.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { SignInFacts } from './openid.ts'

type NewDeviceCode = {
  hash: string
  userCodeHash: string
  client: string
  scope: string
  tables: readonly string[]
  seconds: number
  pace: number
  /** Open ones of a client at a time. */
  most: number
}

/** No row if the client has too many open ones. */
export const insertDeviceCode = (d: NewDeviceCode): Sql => sql`
  insert into svc.oauth_device_codes (hash, user_code_hash, client, scope, tables, pace, expires_at)
  select ${d.hash}, ${d.userCodeHash}, ${d.client}::uuid, ${d.scope}, ${d.tables}::text[], ${d.pace}::int,
    now() + make_interval(secs => ${d.seconds}::int)
  where (select count(*) from (select from svc.oauth_device_codes o where o.client = ${d.client}::uuid and o.expires_at > now()
    limit ${d.most}::int) open) < ${d.most}::int`

const isOpen = (userCodeHash: string): Sql =>
  sql`d.user_code_hash = ${userCodeHash} and d.expires_at > now() and d.decision is null and c.revoked_at is null`

/** What the user sees of it, as JSON. */
export const shownDevice = (userCodeHash: string): Sql => sql`
  select json_build_object('client_id', c.client_id, 'client_name', c.name, 'scope', d.scope, 'allowed_tables', d.tables)::text
  from svc.oauth_device_codes d join svc.oauth_clients c on c.id = d.client where ${isOpen(userCodeHash)}`

/** No row unless the code waits for a decision. */
export const decideDevice = (userCodeHash: string, user: UserIdentity, decision: 'approve' | 'deny'): Sql => sql`
  update svc.oauth_device_codes d set decision = ${decision}, user_id = ${user.id}::uuid, aal = ${user.aal},
    amr = ${user.amr}::text[], auth_time = (select s.created_at from svc.sessions s where s.id = ${user.sessionId}::uuid)
  from svc.oauth_clients c where c.id = d.client and ${isOpen(userCodeHash)}`

export const userOfDevice = (hash: string): Sql => sql`select user_id from svc.oauth_device_codes where hash = ${hash}`

export type DeviceCode = {
  client: string
  userId: string | null
  scope: string
  tables: string[]
  decision: 'approve' | 'deny' | null
  isUsed: boolean
  isExpired: boolean
  /** Polled again before its time. */
  isEarly: boolean
  signIn: SignInFacts | null
}

/** Locked until its poll commits: of parallel ones the first gets the tokens. */
export const lockDeviceCode = (hash: string): Sql => sql`
  select client::text, user_id::text as "userId", scope, tables, decision, used_at is not null as "isUsed",
    expires_at <= now() as "isExpired",
    coalesce(polled_at + make_interval(secs => pace) > clock_timestamp(), false) as "isEarly",
    case when auth_time is not null then json_build_object('sessionId', null,
      'authTime', floor(extract(epoch from auth_time)), 'aal', aal, 'amr', amr) end as "signIn"
  from svc.oauth_device_codes where hash = ${hash} for update`

/** RFC 8628, section 3.5: who polls too early waits five seconds longer from then on. */
export const countPoll = (hash: string, isEarly: boolean): Sql => sql`
  update svc.oauth_device_codes set polled_at = clock_timestamp(), pace = least(pace + ${isEarly ? 5 : 0}::int, 60)
  where hash = ${hash}`

export const spendDeviceCode = (hash: string): Sql =>
  sql`update svc.oauth_device_codes set used_at = now() where hash = ${hash}`

/** Counts a try for each subject before it is judged, so that parallel ones are counted too; the largest count and the seconds left. */
export const countTry = (subjects: readonly string[], seconds: number): Sql => sql`
  with counted as (
    insert into svc.oauth_device_misses as m (subject, misses, expires_at)
    select s, 1, now() + make_interval(secs => ${seconds}::int) from unnest(${subjects}::text[]) s order by s
    on conflict (subject) do update set
      misses = case when m.expires_at <= now() then 1 else m.misses + 1 end,
      expires_at = case when m.expires_at <= now() then excluded.expires_at else m.expires_at end
    returning misses, expires_at
  )
  select json_build_object('misses', max(misses), 'seconds', ceil(extract(epoch from max(expires_at) - now())))::text
  from counted`

/** A right code is no miss. */
export const forgiveTry = (subjects: readonly string[]): Sql => sql`
  update svc.oauth_device_misses set misses = greatest(misses - 1, 0) where subject in (
    select subject from svc.oauth_device_misses where subject = any(${subjects}::text[]) order by subject for update)`
