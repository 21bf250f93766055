import type { Sql } from '../../db/sql.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import type { SmsCodeConfig } from '../../identity/sms-code.ts'
import type { ProviderConfig } from './providers/provider.ts'
import type { ReturnConfig } from './providers/return-to.ts'
import type { LoginBackoff } from './sql.ts'

/** Dependencies of the sign-in methods on other features. */
export type SignInDeps = IdentityDeps & {
  config: LoginBackoff &
    SmsCodeConfig &
    ReturnConfig & {
      hash_queue: number
      oauth: Readonly<Record<string, ProviderConfig>>
    }
  /** Codes are short, so a plain hash could be reversed by trying all of them. */
  smsCodeKey: Buffer
  /** For providers the operator configured. */
  outgoing: Outgoing
  /** Statements that end sessions and grants of the old password. */
  endAccess: (userId: string) => readonly Sql[]
}
