import type { Db } from '../db/db.ts'
import type { Sql } from '../db/sql.ts'
import type { RequireCaptcha } from './captcha.ts'
import type { ProveAddress } from './email-ownership.ts'
import type { BeforeSignUp } from './hooks.ts'
import type { MakeMailLink, QueueMail } from './mail-links.ts'
import type { Passwords } from './password-hashing.ts'
import type { RequireGoodPassword } from './password-rules.ts'
import type { StartSession } from './session.ts'
import type { AuthSettings } from './settings.ts'

/** What features of accounts need of other features; each picks its part. */
export type IdentityDeps = {
  db: Db
  settings: () => AuthSettings
  appName: string
  publicBaseUrl: () => string
  passwords: Passwords
  requireGoodPassword: RequireGoodPassword
  /** Undefined where no captcha is configured. */
  requireCaptcha: RequireCaptcha | undefined
  startSession: StartSession
  /** Undefined without such a hook. */
  beforeSignUp: BeforeSignUp | undefined
  mailLink: MakeMailLink
  proveAddress: ProveAddress
  /** Ends a user's cached tokens in this process at once. */
  onRevoked: (userId: string) => void
  queueMail: QueueMail
  wakeMail: () => void
  queueSms: (to: string, body: string) => Sql
  wakeSms: () => void
}
