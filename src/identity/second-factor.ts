import { AppError } from '../core/errors.ts'
import { type Identity, type PendingIdentity, type UserIdentity, userOf } from '../core/identity.ts'
import type { Tx } from '../db/db.ts'
import { type Sql, sql } from '../db/sql.ts'
import type { AuthResponse, Device } from './session.ts'

/** Boolean expression: the user has a second factor. Backup codes alone do not count. */
export const hasSecondFactor = (userId: Sql): Sql => sql`(
  exists (select from svc.mfa_factors f where f.user_id = ${userId} and f.confirmed_at is not null)
  or exists (select from svc.webauthn_credentials c where c.user_id = ${userId}))`

/** One row when the user has a second factor, else none. */
export const enrolledUser = (userId: string): Sql => sql`select where ${hasSecondFactor(sql`${userId}::uuid`)}`

/** The second-factor flow that all methods share, with lockout and session. */
export type Verification = {
  /** For a challenge: runs `work` with the account locked, unless it is locked out. */
  prepare<T>(userId: string, work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * One try at a second factor. `check` resolves to undefined if the factor is proven, and to the error to report after a
   * wrong guess, which is counted. It throws if nothing was guessed; then nothing is counted or changed.
   */
  attempt(
    who: PendingIdentity,
    second: 'totp' | 'email' | 'sms' | 'webauthn' | 'backup_code',
    device: Device,
    check: (tx: Tx) => Promise<AppError | undefined>,
  ): Promise<AuthResponse>
}

/** For actions that a stolen first factor must not allow. */
export function requireAal2(who: { aal: 'aal1' | 'aal2' }): void {
  if (who.aal === 'aal2') return
  throw new AppError('insufficient_aal', 'insufficient authentication assurance level: aal2 required', {
    data: { aal: { code: 'insufficient_aal', message: 'aal2 required' } },
  })
}

/**
 * Requires aal2 of a user who has a second factor, for what outlives a session or cannot be undone. Resolves to true for
 * a user who has none. The account must be locked, so that none is added meanwhile.
 */
export async function requireOwnFactor(tx: Tx, user: UserIdentity): Promise<boolean> {
  const hasNone = (await tx.run(enrolledUser(user.id))) === 0
  if (!hasNone) requireAal2(user)
  return hasNone
}

/** The first factor ends sessions that began without it, and the end of the last one those that began with it. */
export type EndsSessions = {
  /** Ends the user's other sessions, whose ids go to `onSessionsEnded` after the commit. */
  endOthers: (tx: Tx, user: UserIdentity) => Promise<string[]>
  /** Drops the sessions from this process's cache at once. */
  onSessionsEnded: (ids: readonly string[]) => void
}

/** The user who may enrol a second factor; anonymous accounts are refused, because they have no first factor. */
export function enrollerOf(who: Identity): UserIdentity {
  const user = userOf(who)
  if (user.isAnonymous) throw new AppError('account_is_anonymous', 'link your account before enabling MFA')
  return user
}
