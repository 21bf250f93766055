import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import type { ProveAddress } from '../../identity/email-ownership.ts'
import type { MakeMailLink, QueueMail } from '../../identity/mail-links.ts'
import type { Passwords } from '../../identity/password-hashing.ts'
import type { StartSession } from '../../identity/session.ts'
import type { AuthSettings } from '../../identity/settings.ts'
import type { SmsCodeConfig } from '../../identity/sms-code.ts'
import type { ProviderConfig } from './providers/provider.ts'
import type { ReturnConfig } from './providers/return-to.ts'
import type { LoginBackoff } from './sql.ts'

/** Dependencies of the sign-in methods on other features. */
export type SignInDeps = {
  db: Db
  config: LoginBackoff &
    SmsCodeConfig &
    ReturnConfig & {
      min_password_length: number
      hash_queue: number
      oauth: Readonly<Record<string, ProviderConfig>>
    }
  settings: () => AuthSettings
  appName: string
  publicBaseUrl: () => string
  passwords: Passwords
  startSession: StartSession
  mailLink: MakeMailLink
  queueMail: QueueMail
  wakeMail: () => void
  queueSms: (to: string, body: string) => Sql
  wakeSms: () => void
  /** Codes are short, so a plain hash could be reversed by trying all of them. */
  smsCodeKey: Buffer
  /** For providers the operator configured. */
  outgoing: Outgoing
  proveAddress: ProveAddress
  /** Statements that end sessions and grants of the old password. */
  endAccess: (userId: string) => readonly Sql[]
  /** Ends a user's cached tokens in this process at once. */
  onRevoked: (userId: string) => void
}
