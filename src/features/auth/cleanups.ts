import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { dropAbandonedTotp, dropExpired } from './mfa/sql.ts'

/** Helpers an operator may run or schedule; each resolves to how much it removed. Nothing runs them unasked. */
export function createCleanups({ db, anonymousRetentionDays }: { db: Db; anonymousRetentionDays: number }) {
  const removed = async (...tables: Sql[]): Promise<number> => {
    let sum = 0
    for (const statement of tables) sum += await db.run(SYSTEM, statement)
    return sum
  }
  return {
    expired_auth_cleanup: () =>
      removed(
        sql`delete from svc.mail_tokens where expires_at < now()`,
        sql`delete from svc.sms_codes where expires_at < now()`,
        sql`delete from svc.oauth_states where expires_at < now()`,
        sql`delete from svc.pending_logins where expires_at < now()`,
        sql`delete from svc.refresh_tokens where expires_at < now()`,
        sql`delete from svc.login_failures
            where coalesce(locked_until, now()) <= now() and window_start < now() - interval '1 day'`,
        ...dropExpired,
      ),
    stale_session_cleanup: () => removed(sql`delete from svc.sessions where expires_at < now()`),
    /** Anonymous accounts nobody came back to; one with a living session is in use, however old. */
    anonymous_account_cleanup: () =>
      removed(sql`
        with gone as (
          delete from svc.users u
          where is_anonymous and created_at < now() - make_interval(days => ${anonymousRetentionDays}::int)
            and not exists (select from svc.sessions s where s.user_id = u.id and s.expires_at > now())
          returning id
        )
        select svc.revoke('user', id::text) from gone`),
    unverified_totp_cleanup: () => removed(dropAbandonedTotp),
  } satisfies Record<string, () => Promise<number>>
}
