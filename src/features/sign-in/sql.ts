import { type Sql, sql } from '../../db/sql.ts'

// Wrong passwords

export type LoginBackoff = { login_backoff_failures: number; login_backoff_window: number }

/** In the column `ip`: all addresses together. */
const EVERYWHERE = '*'
/** NIST SP 800-63B, 3.2.2: consecutive failures of one account, wherever they come from. */
const MAX_CONSECUTIVE = 100

/** A mail a day, for a password that came over in a form that cannot be checked. */
const isDue = sql`coalesce(l.mailed_at, '-infinity') < now() - interval '1 day'`

export const claimResetMail = (userId: string): Sql =>
  sql`update svc.lost_passwords l set mailed_at = now() where l.user_id = ${userId}::uuid and ${isDue}`

/** Counts the attempt as failed before the check, so that parallel guesses from many addresses get no extra tries. */
export const accountAndAttempt = (email: string, ip: string): Sql => sql`
  with here as (
    select ceil(extract(epoch from locked_until - now()))::int as seconds from svc.login_failures
    where account = ${email} and ip = ${ip} and locked_until > now()
  ), counted as (
    insert into svc.login_failures as f (account, ip, failures)
    select ${email}, ${EVERYWHERE}, 1 where not exists (select from here)
    on conflict (account, ip) do update set failures = f.failures + 1, window_start = now()
    where f.failures < ${MAX_CONSECUTIVE}::int
    returning failures
  )
  select u.id::text, u.password_hash, (select seconds from here) as locked_seconds,
    exists (select from counted) as may_try,
    u.password_hash is null and exists (select from svc.lost_passwords l where l.user_id = u.id and ${isDue}) as is_mail_due
  from (select ${email}::text as email) asked left join svc.users u on u.email = asked.email`

/** Failures after which a login asks for a captcha. */
const WITHOUT_CAPTCHA = 3

/** Whether the account, wherever from, or the address, for whatever account, has failed too often to go on unproven. */
export const hasFailed = (email: string, ip: string, { login_backoff_window: window }: LoginBackoff): Sql => sql`
  select (coalesce((select failures from svc.login_failures where account = ${email} and ip = ${EVERYWHERE}), 0)
      >= ${WITHOUT_CAPTCHA}::int
    or coalesce((select sum(failures) from svc.login_failures
      where ip = ${ip} and window_start > now() - make_interval(secs => ${window}::float8)), 0) >= ${WITHOUT_CAPTCHA}::int)::text`

/** Uncounts an attempt that the server was too busy to hash. */
export const takeBack = (email: string): Sql => sql`
  update svc.login_failures set failures = failures - 1 where account = ${email} and ip = ${EVERYWHERE} and failures > 0`

export const countFailure = (
  email: string,
  ip: string,
  { login_backoff_failures: max, login_backoff_window: window }: LoginBackoff,
): Sql => {
  const span = sql`make_interval(secs => ${window}::float8)`
  const isOver = sql`f.window_start < now() - ${span}`
  return sql`
    insert into svc.login_failures as f (account, ip, failures, locked_until)
    values (${email}, ${ip}, 1, case when ${max}::int <= 1 then now() + ${span} end)
    on conflict (account, ip) do update set
      failures = case when ${isOver} then 1 else f.failures + 1 end,
      window_start = case when ${isOver} then now() else f.window_start end,
      locked_until = case when (case when ${isOver} then 1 else f.failures + 1 end) >= ${max}::int then now() + ${span} end`
}

export const clearFailures = (email: string, ip: string): Sql =>
  sql`delete from svc.login_failures where account = ${email} and ip = ${ip}`

export const replaceHash = (userId: string, from: string, to: string): Sql =>
  sql`update svc.users set password_hash = ${to} where id = ${userId}::uuid and password_hash = ${from}`

/** For an owner who proved the account in another way. */
export const forgiveFailures = (userId: string): Sql => sql`
  delete from svc.login_failures where account = (select email from svc.users where id = ${userId}::uuid)`

// Anonymous accounts

/** The WHERE clause lets only the first of two concurrent links succeed. */
export const linkAnonymous = (
  id: string,
  to: { email?: string | undefined; passwordHash?: string; emailVerified: boolean },
): Sql => sql`
  update svc.users
  set email = ${to.email ?? null}, password_hash = ${to.passwordHash ?? null}, is_anonymous = false,
    email_verified_at = case when ${to.emailVerified}::boolean then now() end, linked_at = now(), updated_at = now()
  where id = ${id}::uuid and is_anonymous
  returning id::text`

// Cleanups

/** Identities of providers that were linked since a moment. */
export const unlinkSince = (userId: string, since: string): Sql =>
  sql`delete from svc.identities where user_id = ${userId}::uuid and created_at >= ${since}::timestamptz`

export const expiredOfSignIn = [
  { table: sql`svc.oauth_states`, isOver: sql`expires_at < now()` },
  // Failed tries are kept longer than their code.
  {
    table: sql`svc.sms_codes`,
    isOver: sql`expires_at < now() and (failures = 0 or expires_at < now() - interval '1 day')
      and coalesce(locked_until, now()) <= now()`,
  },
  {
    table: sql`svc.login_failures`,
    isOver: sql`window_start < now() - interval '1 day' and coalesce(locked_until, now()) <= now()
      and (ip <> '*' or window_start < now() - interval '30 days')`,
  },
]
