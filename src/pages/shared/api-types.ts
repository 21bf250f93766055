import type { TypeOf } from '../../core/json-type.ts'
import type { user } from '../../core/user.ts'
import type { RequestOptions } from './passkeys.ts'

/** The parts of API responses that pages read. */

export type User = TypeOf<typeof user>

export type SignedIn = { token: string; refreshToken: string; user: User }

export type SecondFactorPending = { mfa_pending: true; mfa_token: string }

export type Factors = {
  factors: { method: string; label: string; phone?: string; email?: string }[]
  webauthn: number
  backup_codes: number
}

export type PasskeyRequest = { challenge_id: string; options: RequestOptions }
