import { type Sql, sql } from '../../db/sql.ts'
import type { Device } from '../../identity/session.ts'

const inSeconds = (seconds: number): Sql => sql`now() + make_interval(secs => ${seconds}::float8)`

type SessionValues = {
  sessionId: string
  /** Id of the pending login, if a second factor has to follow. */
  pendingId: string
  userId: string
  aal: 'aal1' | 'aal2'
  amr: readonly string[]
  device: Device
  refreshHash: string
  refreshSeconds: number
  mfaSeconds: number
  /** Boolean expression over `u`, the user; the sign-in happens only if it still holds. */
  onlyIf: Sql
  /** Boolean expression: a second factor has to follow. */
  secondFactor: Sql
}

/**
 * Opens a session, or parks the sign-in until its second factor; one statement, so it can end any flight. The account is
 * locked before it, so that the condition and the second factor are judged as they are when the session is committed.
 * Returns {user, pending}, or no row if the user is gone or the condition no longer holds.
 */
export const openSession = (s: SessionValues): Sql => sql`
  with subject as materialized (
    select u as account, u.id, (${s.secondFactor}) as pending
    from svc.users u where u.id = ${s.userId}::uuid and u.disabled_at is null and (${s.onlyIf})
  ), made as (
    insert into svc.sessions (id, user_id, aal, amr, user_agent, ip_address, expires_at)
    select ${s.sessionId}::uuid, id, ${s.aal}, ${s.amr}::text[], ${s.device.userAgent}, ${s.device.ip},
      ${inSeconds(s.refreshSeconds)}
    from subject where not pending returning id
  ), token as (
    insert into svc.refresh_tokens (hash, session_id, expires_at)
    select ${s.refreshHash}, id, ${inSeconds(s.refreshSeconds)} from made
  ), parked as (
    insert into svc.pending_logins (id, user_id, amr, expires_at)
    select ${s.pendingId}::uuid, id, ${s.amr}::text[], ${inSeconds(s.mfaSeconds)} from subject where pending
  ), forgiven as (
    -- A sign-in ends the row of failures over all addresses.
    delete from svc.login_failures f using subject s where f.account = (s.account).email and f.ip = '*'
  )
  select json_build_object('user', svc.user_json(account), 'pending', pending)::text from subject`

/** A session has one sign-in that waits for its second factor. */
export const parkSession = (
  s: Pick<SessionValues, 'pendingId' | 'userId' | 'sessionId' | 'amr' | 'mfaSeconds'>,
): Sql => sql`
  insert into svc.pending_logins (id, user_id, session_id, amr, expires_at)
  values (${s.pendingId}::uuid, ${s.userId}::uuid, ${s.sessionId}::uuid, ${s.amr}::text[], ${inSeconds(s.mfaSeconds)})
  on conflict (session_id) do update
  set id = excluded.id, amr = excluded.amr, expires_at = excluded.expires_at, used_at = null, created_at = now()`

/** The organisation is the active one while the user is a member. */
const sessionJson: Sql = sql`json_build_object('user', svc.user_json(u), 'sessionId', s.id, 'aal', s.aal, 'amr', s.amr,
  'org', (select m.org_id from svc.members m where m.org_id = s.org_id and m.user_id = s.user_id))::text`

export const currentSession = (sessionId: string): Sql =>
  sql`select ${sessionJson} from svc.sessions s join svc.users u on u.id = s.user_id where s.id = ${sessionId}::uuid`

/** No row for a token that cannot be rotated. */
export const sessionOfToken = (refreshHash: string): Sql => sql`
  select ${sessionJson} from svc.refresh_tokens t join svc.sessions s on s.id = t.session_id
  join svc.users u on u.id = s.user_id
  where t.hash = ${refreshHash} and t.rotated_at is null and t.expires_at > now()`

/** Of parallel calls with one token exactly one gets a row: the rest wait and then find rotated_at set. */
export const rotateRefreshToken = (r: {
  hash: string
  successorHash: string
  successorSealed: string | null
  refreshSeconds: number
  device: Device
}): Sql => sql`
  with won as (
    update svc.refresh_tokens
    set rotated_at = now(), successor_hash = ${r.successorHash}, successor_sealed = ${r.successorSealed}
    where hash = ${r.hash} and rotated_at is null and expires_at > now()
    returning session_id
  ), successor as (
    insert into svc.refresh_tokens (hash, session_id, expires_at)
    select ${r.successorHash}, session_id, ${inSeconds(r.refreshSeconds)} from won
  ), expired as (
    delete from svc.refresh_tokens t using won where t.session_id = won.session_id and t.expires_at < now()
  ), s as (
    update svc.sessions s
    set last_active_at = now(), expires_at = ${inSeconds(r.refreshSeconds)},
      user_agent = ${r.device.userAgent}, ip_address = ${r.device.ip}
    from won where s.id = won.session_id returning s.*
  )
  select ${sessionJson} from s join svc.users u on u.id = s.user_id`

/** State of a token that could not be rotated: unknown (no row), reused within the harmless time, or stolen. */
export const usedRefreshToken = (hash: string, harmlessSeconds: number, graceSeconds: number): Sql => sql`
  select json_build_object(
    'session', t.session_id,
    'stolen', t.rotated_at < now() - make_interval(secs => ${harmlessSeconds}::float8),
    'sealed', case when t.rotated_at >= now() - make_interval(secs => ${graceSeconds}::float8)
      and next.rotated_at is null then t.successor_sealed end,
    'current', ${sessionJson})::text
  from svc.refresh_tokens t
  join svc.sessions s on s.id = t.session_id
  join svc.users u on u.id = s.user_id
  left join svc.refresh_tokens next on next.hash = t.successor_hash
  where t.hash = ${hash} and t.rotated_at is not null`

const revoked = (from: Sql): Sql => sql`select svc.revoke('session', id::text), id::text from ${from}`

export const endSession = (sessionId: string): Sql => sql`
  with gone as (delete from svc.sessions where id = ${sessionId}::uuid returning id) ${revoked(sql`gone`)}`

export const endSessionOf = (userId: string, sessionId: string): Sql => sql`
  with gone as (
    delete from svc.sessions where id = ${sessionId}::uuid and user_id = ${userId}::uuid returning id
  ) ${revoked(sql`gone`)}`

export const endSessionOfToken = (refreshHash: string): Sql => sql`
  with gone as (
    delete from svc.sessions where id = (select session_id from svc.refresh_tokens where hash = ${refreshHash})
    returning id
  ) ${revoked(sql`gone`)}`

export const endOtherSessions = (userId: string, keep: string): Sql => sql`
  with gone as (
    delete from svc.sessions where user_id = ${userId}::uuid and id <> ${keep}::uuid returning id
  ) ${revoked(sql`gone`)}`

export const ownerOfSession = (sessionId: string): Sql =>
  sql`select user_id from svc.sessions where id = ${sessionId}::uuid`

export const ownerOfToken = (refreshHash: string): Sql => sql`
  select s.user_id from svc.refresh_tokens t join svc.sessions s on s.id = t.session_id where t.hash = ${refreshHash}`

export const listSessions = (userId: string, current: string): Sql => sql`
  select coalesce(json_agg(json_build_object(
    'id', id, 'user_agent', user_agent, 'ip_address', ip_address, 'created_at', svc.iso_utc(created_at),
    'last_active_at', svc.iso_utc(last_active_at), 'current', id = ${current}::uuid
  ) order by last_active_at desc, created_at desc, id), '[]')::text
  from svc.sessions where user_id = ${userId}::uuid and expires_at > now()`
