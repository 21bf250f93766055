import type { AppError } from '../core/errors.ts'
import type { Tx } from '../db/db.ts'
import type { Sql } from '../db/sql.ts'
import type { Call } from '../http/route.ts'

/** What a session remembers of where it was opened, for its owner to recognise. */
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

/** A session about to be opened, at the end of a transaction. */
export type NewSession = {
  open(tx: Tx, refused?: () => AppError): Promise<AuthResponse>
  /** For the last statement of a flight, whose answer goes to `finish`. */
  statement: Sql
  /** Throws `refused` when the user is gone or the condition no longer held. */
  finish(answer: string | null, refused?: () => AppError): AuthResponse
}

/**
 * `amr` of one method is a first factor and may have to wait for a second; with two, both are proven. `onlyIf` is a
 * boolean expression over `u`, the user.
 */
export type StartSession = (
  userId: string,
  amr: readonly [FirstFactor, ...string[]],
  device: Device,
  onlyIf?: Sql,
) => NewSession
