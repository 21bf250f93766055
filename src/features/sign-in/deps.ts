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

/** What the ways to sign in need of other features. */
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
  /** A code has few digits, so a plain hash of it could be undone by trying them all. */
  smsCodeKey: Buffer
  /** For providers the operator configured. */
  outgoing: Outgoing
  proveAddress: ProveAddress
  /** Statements that end what an old password led to. */
  endAccess: (userId: string) => readonly Sql[]
  /** Makes the end of a user's tokens count at once in this process. */
  onRevoked: (userId: string) => void
}
