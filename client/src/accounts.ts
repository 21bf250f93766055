import type { CallOptions, Method } from './core.ts'
import type { User } from './session-store.ts'

export type Tokens = { token: string; refreshToken: string; user: User }
export type Answer = Tokens & { mfa_pending?: boolean; mfa_token?: string }

/** The user who is signed in, or the second factor that is missing. */
export type SignIn = { user: User; mfa?: undefined } | { mfa: Mfa; user?: undefined }

export type MfaMethod = 'totp' | 'email' | 'sms'

/** The second factor of a sign-in that is not complete. */
export type Mfa = {
  methods: (MfaMethod | 'passkey' | 'backup')[]
  /** Sends a code by mail or SMS. */
  send(method: 'email' | 'sms', call?: CallOptions): Promise<void>
  totp(code: string, call?: CallOptions): Promise<{ user: User }>
  email(code: string, call?: CallOptions): Promise<{ user: User }>
  sms(code: string, call?: CallOptions): Promise<{ user: User }>
  backup(code: string, call?: CallOptions): Promise<{ user: User }>
  passkey(call?: CallOptions): Promise<{ user: User }>
}

/** Factors as the server lists them. */
export type Factors = {
  factors: { id: string; method: MfaMethod; label?: string; phone?: string; email?: string }[]
  webauthn: number
  backup_codes: number
}

/** Routes of a sign-in that waits for its second factor. */
type Ask = <T>(path: string, body?: object, call?: CallOptions) => Promise<T>

/** What the other entries about accounts build on. */
export type Accounts = {
  /** Without a bearer, as routes that sign in take none. */
  open<T>(path: string, body?: object, call?: CallOptions, token?: string | null): Promise<T>
  own<T>(method: Method, path: string, body?: object, call?: CallOptions): Promise<T>
  signedIn(answer: Tokens): Promise<{ user: User }>
  signIn(answer: Answer): Promise<SignIn>
  /** A passkey as the second factor, if the entry with passkeys is there. */
  passkey?: (ask: Ask, call?: CallOptions) => Promise<Tokens>
}
