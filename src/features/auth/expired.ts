import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import type { Loop } from '../../db/loop.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { type RemoveSlice, sweep } from '../../db/sweep.ts'
import { expiredOfMfa } from './mfa/sql.ts'

/** Rows of a table that are over. Each condition begins with what an index serves. */
export type Expired = { readonly table: Sql; readonly isOver: Sql }

/** Any number that nothing else locks. */
const TURN = 7_160_423

const byExpiry = (table: Sql): Expired => ({ table, isOver: sql`expires_at < now()` })

export const expiredSessions = byExpiry(sql`svc.sessions`)

export const expiredOfAuth: readonly Expired[] = [
  byExpiry(sql`svc.mail_tokens`),
  byExpiry(sql`svc.oauth_states`),
  byExpiry(sql`svc.pending_logins`),
  byExpiry(sql`svc.refresh_tokens`),
  // Wrong tries outlive the code they were made at.
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
  ...expiredOfMfa,
]

/**
 * Removes one slice, so that nobody waits long for a lock, and only one process at a time does: the others would find
 * the same rows.
 */
export const removing =
  ({ table, isOver }: Expired): RemoveSlice =>
  (limit) =>
    sql`
    with turn as materialized (select pg_try_advisory_xact_lock(${TURN}::bigint) as is_mine)
    delete from ${table}
    where ctid = any (array(select ctid from ${table} where ${isOver} limit ${limit}::int)) and (select is_mine from turn)`

/** Tables that only grow would make every sign-in slower. */
export const sweepAuth = ({ db, observe }: { db: Db; observe: Observe }): Loop =>
  sweep({ db, observe, what: 'expired sessions and codes', remove: [expiredSessions, ...expiredOfAuth].map(removing) })
