import type { AppError } from '../core/errors.ts'
import type { UserIdentity } from '../core/identity.ts'
import type { Tx } from '../db/db.ts'
import type { Sql } from '../db/sql.ts'
import type { Call } from '../http/route.ts'

/** Where a session was opened, shown to its owner. */
export type Device = { userAgent: string; ip: string }

const MAX_USER_AGENT = 512

export const deviceOf = (call: Pick<Call, 'headers' | 'ip'>): Device => ({
  userAgent: (call.headers['user-agent'] ?? '').slice(0, MAX_USER_AGENT),
  ip: call.ip,
})

export type UserJson = { id: string; email: string; is_anonymous: boolean } & Record<string, unknown>
export type AuthResponse =
  | { token: string; refreshToken: string; user: UserJson }
  | { mfa_pending: true; mfa_token: string }

export type FirstFactor = 'password' | 'otp' | 'oauth' | 'anonymous' | 'webauthn'

/** A session to be opened at the end of a transaction. */
export type NewSession = {
  /** The answer is made, and hooks have their say, once the transaction is committed. */
  open(tx: Tx, refused?: () => AppError): Promise<OpenedSession>
  /** The first statement of a flight, unless the flight makes the account. */
  lock: Sql
  /** The last statement of a flight; its result goes to `finish`. */
  statement: Sql
  /** Throws `refused` when the user is deleted or `onlyIf` is false. */
  finish(answer: string | null, refused?: () => AppError): Promise<AuthResponse>
}

/** Of a session that was opened in a transaction; called after its commit. */
export type OpenedSession = () => Promise<AuthResponse>

/** A token for a signed-in user to prove a second factor with; a later one replaces it, and it ends with the session. */
export type StepUp = (tx: Tx, user: UserIdentity) => Promise<string>

/**
 * With one method in `amr` a second factor may still be required; with two, both are verified. `onlyIf` is a boolean
 * expression over `u`, the user.
 */
export type StartSession = (
  userId: string,
  amr: readonly [FirstFactor, ...string[]],
  device: Device,
  onlyIf?: Sql,
) => NewSession
