import { SYSTEM } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { sweepAll } from '../../db/sweep.ts'
import { expiredOfAuth, expiredSessions, removing } from './expired.ts'
import { dropAbandonedTotp } from './mfa/sql.ts'

/**
 * Helpers an operator may run or schedule; each resolves to how much it removed. What has an expiry is also swept by the
 * server itself, unasked.
 */
export function createCleanups({ db, anonymousRetentionDays }: { db: Db; anonymousRetentionDays: number }) {
  const removed = async (...tables: Sql[]): Promise<number> => {
    let sum = 0
    for (const statement of tables) sum += await db.run(SYSTEM, statement)
    return sum
  }
  return {
    expired_auth_cleanup: () => sweepAll(db, ...expiredOfAuth.map(removing)),
    stale_session_cleanup: () => sweepAll(db, removing(expiredSessions)),
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
