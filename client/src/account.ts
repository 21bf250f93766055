import type { Factors, MfaMethod } from './accounts.ts'
import { accountsOf, type CallOptions, type Core, segment } from './core.ts'

export type ActiveSession = {
  id: string
  user_agent: string
  ip_address: string
  created_at: string
  last_active_at: string
  current: boolean
}

/** What pages about the own account need: a new password, its address, second factors, where it is signed in. After `createAuth`. */
export function createAccount(core: Core) {
  const { open, own, signedIn } = accountsOf(core)
  return {
    resetPassword: (account: { email: string }, call?: CallOptions) => open<void>('password-reset', account, call),
    confirmReset: (change: { token: string; password: string }, call?: CallOptions) =>
      open<void>('password-reset/confirm', change, call),
    /** With the token of the mail; without it another mail is sent. */
    verifyEmail: (proof?: { token: string }, call?: CallOptions) =>
      proof ? open<void>('verify', proof, call) : own<void>('POST', 'verify/resend', undefined, call),
    /** Gives an anonymous account an address and a password. */
    link: async (account: { email: string; password: string }, call?: CallOptions) =>
      signedIn(await own('POST', 'link/email', account, call)),
    sessions: (call?: CallOptions) => own<ActiveSession[]>('GET', 'sessions', undefined, call),
    /** Ends one session, or all but this one. */
    endSession: (session: { id: string } | 'others', call?: CallOptions) =>
      own<void>(
        'DELETE',
        session === 'others' ? 'sessions?all_except_current=true' : `sessions/${segment(session.id)}`,
        undefined,
        call,
      ),
    mfa: {
      factors: (call?: CallOptions) => own<Factors>('GET', 'mfa/factors', undefined, call),
      /** Begins: an app gets a secret, an address or a phone a code. */
      enroll: ((method: MfaMethod, with_?: { phone: string }, call?: CallOptions) =>
        own('POST', `mfa/${method}/enroll`, with_, call)) as {
        (
          method: 'totp',
          with_?: undefined,
          call?: CallOptions,
        ): Promise<{ factor_id: string; uri: string; secret: string }>
        (method: 'email', with_?: undefined, call?: CallOptions): Promise<void>
        (method: 'sms', with_: { phone: string }, call?: CallOptions): Promise<void>
      },
      confirm: (method: MfaMethod, code: { code: string }, call?: CallOptions) =>
        own<void>('POST', `mfa/${method}/enroll/confirm`, code, call),
      /** Ten new ones; earlier ones are no longer good. */
      backupCodes: async (call?: CallOptions) =>
        (await own<{ codes: string[] }>('POST', 'mfa/backup/regenerate', undefined, call)).codes,
    },
  }
}
