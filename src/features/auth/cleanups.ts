import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import type { Loop } from '../../db/loop.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { type RemoveSlice, sweep, sweepAll } from '../../db/sweep.ts'

/** Rows of a table that are over. Each condition begins with what an index serves. */
export type Expired = { readonly table: Sql; readonly isOver: Sql }

const byExpiry = (table: Sql): Expired => ({ table, isOver: sql`expires_at < now()` })

const expiredSessions = byExpiry(sql`svc.sessions`)

export const expiredOfAuth: readonly Expired[] = [
  byExpiry(sql`svc.mail_tokens`),
  byExpiry(sql`svc.pending_logins`),
  byExpiry(sql`svc.refresh_tokens`),
]

/** Any number that nothing else locks. */
const LOCK = 7_160_423

/** One slice, so that no statement waits long for a lock, and in one process at a time: others would find the same rows. */
const removing =
  ({ table, isOver }: Expired): RemoveSlice =>
  (limit) =>
    sql`
    with lock as materialized (select pg_try_advisory_xact_lock(${LOCK}::bigint) as is_mine)
    delete from ${table}
    where ctid = any (array(select ctid from ${table} where ${isOver} limit ${limit}::int)) and (select is_mine from lock)`

type Deps = { db: Db; expired: readonly Expired[] }

/** Tables that only grow would make every sign-in slower. */
export const sweepExpired = ({ db, expired, observe }: Deps & { observe: Observe }): Loop =>
  sweep({ db, observe, what: 'expired sessions and codes', remove: [expiredSessions, ...expired].map(removing) })

/**
 * For an operator to run or schedule; each resolves to how much it removed. What has an expiry is also swept by the
 * server itself.
 */
export const createCleanups = ({ db, expired, anonymousRetentionDays }: Deps & { anonymousRetentionDays: number }) => ({
  expired_auth_cleanup: () => sweepAll(db, ...expired.map(removing)),
  stale_session_cleanup: () => sweepAll(db, removing(expiredSessions)),
  /** Abandoned anonymous accounts; one with a living session is in use, however old. */
  anonymous_account_cleanup: () =>
    db.run(
      SYSTEM,
      sql`
      with gone as (
        delete from svc.users u
        where is_anonymous and created_at < now() - make_interval(days => ${anonymousRetentionDays}::int)
          and not exists (select from svc.sessions s where s.user_id = u.id and s.expires_at > now())
        returning id
      )
      select svc.revoke('user', id::text) from gone`,
    ),
})
