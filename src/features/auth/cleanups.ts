import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import type { Loop } from '../../db/loop.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { type RemoveSlice, sweep, sweepAll } from '../../db/sweep.ts'

/** Expired rows of a table; `isOver` begins with an indexed condition. */
export type Expired = { readonly table: Sql; readonly isOver: Sql }

const byExpiry = (table: Sql): Expired => ({ table, isOver: sql`expires_at < now()` })

const expiredSessions = byExpiry(sql`svc.sessions`)

export const expiredOfAuth: readonly Expired[] = [
  byExpiry(sql`svc.mail_tokens`),
  byExpiry(sql`svc.pending_logins`),
  byExpiry(sql`svc.refresh_tokens`),
]

/** An advisory lock id that nothing else uses. */
const LOCK = 7_160_423

/**
 * Removes one slice, to keep locks short, in one process at a time, since all would select the same rows. It passes over
 * rows that others hold: nothing that ends access waits for a sweep.
 */
const removing =
  ({ table, isOver }: Expired): RemoveSlice =>
  (limit) =>
    sql`
    with lock as materialized (select pg_try_advisory_xact_lock(${LOCK}::bigint) as is_mine)
    delete from ${table}
    where ctid = any (array(select ctid from ${table} where ${isOver} limit ${limit}::int for update skip locked)) and (select is_mine from lock)`

type Deps = { db: Db; expired: readonly Expired[] }

/** Without it the tables would grow and slow down every sign-in. */
export const sweepExpired = ({ db, expired, observe }: Deps & { observe: Observe }): Loop =>
  sweep({ db, observe, what: 'expired sessions and codes', remove: [expiredSessions, ...expired].map(removing) })

/**
 * Jobs that an operator runs or schedules; each resolves to the number of removed rows. The server also sweeps expired
 * rows by itself.
 */
export const createCleanups = ({ db, expired, anonymousRetentionDays }: Deps & { anonymousRetentionDays: number }) => ({
  expired_auth_cleanup: () => sweepAll(db, ...expired.map(removing)),
  stale_session_cleanup: () => sweepAll(db, removing(expiredSessions)),
  /** Abandoned anonymous accounts; one with a live session or key, or an identity elsewhere, is in use, however old. */
  anonymous_account_cleanup: () =>
    db.run(
      SYSTEM,
      sql`
      with gone as (
        delete from svc.users u
        where is_anonymous and created_at < now() - make_interval(days => ${anonymousRetentionDays}::int)
          and not exists (select from svc.sessions s where s.user_id = u.id and s.expires_at > now())
          and not exists (select from svc.identities i where i.user_id = u.id)
          and not exists (select from svc.api_keys k
            where k.user_id = u.id and k.revoked_at is null and coalesce(k.expires_at > now(), true))
        returning id
      )
      select svc.revoke('user', id::text) from gone`,
    ),
})
