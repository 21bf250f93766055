import { type Sql, sql } from '../../db/sql.ts'
import type { FactorMethod } from './methods.ts'

/** All second factors of a user but passkeys, for when the owner of the address takes over the account. */
export const dropFactors = (userId: string): Sql => sql`
  with codes as (delete from svc.mfa_backup_codes where user_id = ${userId}::uuid),
  limits as (delete from svc.mfa_limits where user_id = ${userId}::uuid)
  delete from svc.mfa_factors where user_id = ${userId}::uuid`

/** Factors enrolled since a moment, and all backup codes, which may be newer. */
export const dropFactorsSince = (userId: string, since: string): Sql => sql`
  with codes as (delete from svc.mfa_backup_codes where user_id = ${userId}::uuid)
  delete from svc.mfa_factors where user_id = ${userId}::uuid and created_at >= ${since}::timestamptz`

// Factors

/** An enrolment that is too old to be finished. */
const isAbandoned: Sql = sql`(f.method = 'totp' and f.created_at < now() - interval '10 minutes')`

export type NewFactor = { id: string; method: FactorMethod; secret?: string; phone?: string | undefined }

export const dropPending = (userId: string, method: FactorMethod): Sql => sql`
  delete from svc.mfa_factors where user_id = ${userId}::uuid and method = ${method} and confirmed_at is null`

export const insertFactor = (userId: string, f: NewFactor): Sql => sql`
  insert into svc.mfa_factors (id, user_id, method, secret, phone)
  values (${f.id}::uuid, ${userId}::uuid, ${f.method}, ${f.secret ?? null}, ${f.phone ?? null})`

/** Seconds since 1970 by the database's clock, which all processes share. */
const epoch: Sql = sql`extract(epoch from clock_timestamp())::float8 as epoch`

export type Factor = { id: string; address: string; secret: string; last_step: number; epoch: number }

const factor = (userId: string, method: FactorMethod, condition: Sql): Sql => sql`
  select f.id::text, coalesce(f.phone, u.email, '') as address, coalesce(f.secret, '') as secret, f.last_step, ${epoch}
  from svc.mfa_factors f join svc.users u on u.id = f.user_id
  where f.user_id = ${userId}::uuid and f.method = ${method} and ${condition}`

export const enrolledFactor = (userId: string, method: FactorMethod): Sql =>
  factor(userId, method, sql`f.confirmed_at is not null`)

export const pendingFactor = (userId: string, method: FactorMethod): Sql =>
  factor(userId, method, sql`f.confirmed_at is null and not ${isAbandoned}`)

export const confirmFactor = (id: string): Sql =>
  sql`update svc.mfa_factors set confirmed_at = now() where id = ${id}::uuid`

/** Changes a row only if the step is newer than every step used before. */
export const spendStep = (factorId: string, step: number): Sql =>
  sql`update svc.mfa_factors set last_step = ${step} where id = ${factorId}::uuid and last_step < ${step}`

export const selectFactors = (userId: string): Sql => sql`
  select coalesce((
      select json_agg(json_build_object('id', f.id, 'method', f.method, 'phone', f.phone, 'email', u.email)
        order by f.confirmed_at, f.id)
      from svc.mfa_factors f where f.user_id = u.id and f.confirmed_at is not null
    ), '[]') as factors,
    (select count(*)::int from svc.webauthn_credentials c where c.user_id = u.id) as webauthn,
    (${remainingCodes(sql`u.id`)}) as backup_codes
  from svc.users u where u.id = ${userId}::uuid`

// Challenges

export const insertChallenge = (c: {
  id: string
  factorId: string
  codeHash: string | null
  seconds: number
}): Sql => sql`
  with stale as (
    delete from svc.mfa_challenges where factor_id = ${c.factorId}::uuid and expires_at < now() - interval '1 hour'
  )
  insert into svc.mfa_challenges (id, factor_id, code_hash, expires_at)
  values (${c.id}::uuid, ${c.factorId}::uuid, ${c.codeHash}, now() + make_interval(secs => ${c.seconds}::float8))`

export type Challenge = {
  id: string
  code_hash: string | null
  attempts: number
  is_verified: boolean
  /** Below 1 when it is over. */
  seconds_left: number
}

const challenge = (condition: Sql): Sql => sql`
  select c.id::text, c.code_hash, c.attempts, c.verified_at is not null as is_verified,
    ceil(extract(epoch from c.expires_at - now()))::int as seconds_left
  from svc.mfa_challenges c join svc.mfa_factors f on f.id = c.factor_id where ${condition}`

export const challengeOf = (id: string, userId: string, method: FactorMethod): Sql =>
  challenge(sql`c.id = ${id}::uuid and f.user_id = ${userId}::uuid and f.method = ${method}
    and f.confirmed_at is not null`)

export const enrolmentChallenge = (factorId: string): Sql => challenge(sql`c.factor_id = ${factorId}::uuid`)

export const spendChallenge = (id: string): Sql =>
  sql`update svc.mfa_challenges set verified_at = now() where id = ${id}::uuid`

export const countWrongCode = (id: string): Sql =>
  sql`update svc.mfa_challenges set attempts = attempts + 1 where id = ${id}::uuid`

/** A pending login opens one session. */
export const spendPendingLogin = (id: string, userId: string): Sql => sql`
  update svc.pending_logins set used_at = now()
  where id = ${id}::uuid and user_id = ${userId}::uuid and used_at is null and expires_at > now()
  returning to_json(amr) as amr`

export const verifyAddress = (userId: string): Sql => sql`
  update svc.users set email_verified_at = now(), updated_at = now()
  where id = ${userId}::uuid and email_verified_at is null`

// Limits

const since = (times: Sql, seconds: number): Sql =>
  sql`array(select at from unnest(${times}) at where at > now() - make_interval(secs => ${seconds}::float8) order by at)`

/** Not of the transaction: it may have waited for one that began later. */
const secondsUntil = (time: Sql): Sql => sql`ceil(extract(epoch from ${time} - clock_timestamp()))::int`

/** Positive while locked. */
export const lockedSeconds = (userId: string): Sql =>
  sql`select ${secondsUntil(sql`locked_until`)} as seconds from svc.mfa_limits where user_id = ${userId}::uuid`

export const countFactorFailure = (
  userId: string,
  { max, seconds, lockSeconds }: { max: number; seconds: number; lockSeconds: number },
): Sql => sql`
  insert into svc.mfa_limits as l (user_id, failures) values (${userId}::uuid, array[now()])
  on conflict (user_id) do update set (failures, locked_until) = (
    select case when cardinality(recent) < ${max}::int then recent else '{}' end,
      case when cardinality(recent) >= ${max}::int then now() + make_interval(secs => ${lockSeconds}::float8) end
    from (select ${since(sql`l.failures`, seconds)} || now() as recent) counted
  )`

export const clearFactorFailures = (userId: string): Sql =>
  sql`update svc.mfa_limits set failures = '{}', locked_until = null where user_id = ${userId}::uuid`

const MAILS = { challenge: sql`mails`, enrolment: sql`enrolment_mails` }

/** Positive while `max` mails were sent within the last `seconds`. */
export const mailWait = (userId: string, purpose: keyof typeof MAILS, max: number, seconds: number): Sql => sql`
  select ${secondsUntil(sql`at + make_interval(secs => ${seconds}::float8)`)} as seconds
  from svc.mfa_limits, unnest(${MAILS[purpose]}) at where user_id = ${userId}::uuid
  order by at desc offset ${max - 1} limit 1`

export const countMail = (userId: string, purpose: keyof typeof MAILS, seconds: number): Sql => sql`
  insert into svc.mfa_limits as l (user_id, ${MAILS[purpose]}) values (${userId}::uuid, array[clock_timestamp()])
  on conflict (user_id) do update set ${MAILS[purpose]} = ${since(sql`l.${MAILS[purpose]}`, seconds)} || clock_timestamp()`

// Backup codes

export const dropBackupCodes = (userId: string): Sql =>
  sql`delete from svc.mfa_backup_codes where user_id = ${userId}::uuid`

export const insertBackupCodes = (userId: string, hashes: readonly string[]): Sql => sql`
  insert into svc.mfa_backup_codes (user_id, code_hash) select ${userId}::uuid, unnest(${hashes}::text[])`

export const backupCode = (userId: string, hash: string): Sql => sql`
  select used_at is not null as is_used from svc.mfa_backup_codes
  where user_id = ${userId}::uuid and code_hash = ${hash}`

export const spendBackupCode = (userId: string, hash: string): Sql =>
  sql`update svc.mfa_backup_codes set used_at = now() where user_id = ${userId}::uuid and code_hash = ${hash}`

export const remainingCodes = (userId: Sql): Sql =>
  sql`select count(*)::int as remaining from svc.mfa_backup_codes where user_id = ${userId} and used_at is null`

// Cleanups

export const dropAbandonedTotp: Sql = sql`delete from svc.mfa_factors f where f.confirmed_at is null and ${isAbandoned}`

export const expiredOfMfa = [
  { table: sql`svc.mfa_challenges`, isOver: sql`expires_at < now()` },
  {
    table: sql`svc.mfa_factors`,
    isOver: sql`confirmed_at is null and created_at < now() - interval '1 day' and method <> 'totp'`,
  },
  {
    table: sql`svc.mfa_limits`,
    isOver: sql`coalesce(locked_until, now()) <= now()
      and not exists (select from unnest(failures || mails || enrolment_mails) at where at > now() - interval '1 hour')`,
  },
]
