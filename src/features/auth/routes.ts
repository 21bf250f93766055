import type { Act } from '../../core/audit-entry.ts'
import { notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Observe } from '../../core/observe.ts'
import { deriveKey } from '../../core/secret.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import { auditStatement } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import type { Loop } from '../../db/loop.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { type Route, route } from '../../http/route.ts'
import { accountPageRoute } from './account-page/page.ts'
import { createAccounts } from './accounts/accounts.ts'
import { createMailLinks, type MailConfig, type QueueMail } from './accounts/mail-links.ts'
import { pageRoutes } from './accounts/pages.ts'
import type { ForeignCredentials } from './accounts/proof.ts'
import { accountRoutes } from './accounts/routes.ts'
import { authAdminRoutes } from './admin-routes.ts'
import { hasSecondFactor } from './assurance.ts'
import { sweepAuth } from './expired.ts'
import { createIdentify, type Identify, type IdentifyDeps } from './identify.ts'
import { createBackupCodes } from './mfa/codes/backup-codes.ts'
import { createCodeKey } from './mfa/codes/code-key.ts'
import { emailChannel } from './mfa/codes/email-codes.ts'
import { createSentCodes } from './mfa/codes/sent-codes.ts'
import { smsChannel } from './mfa/codes/sms-codes.ts'
import { createEnrolment } from './mfa/enrolment.ts'
import { createCredentials } from './mfa/passkeys/credentials.ts'
import { passkeyNotice } from './mfa/passkeys/notices.ts'
import { createPasskeys } from './mfa/passkeys/passkeys.ts'
import { mfaRoutes } from './mfa/routes.ts'
import { dropFactors } from './mfa/sql.ts'
import { createTotp } from './mfa/totp/totp.ts'
import { createVerification } from './mfa/verification.ts'
import { createExternalSignIn } from './providers/external-sign-in.ts'
import type { ProviderConfig } from './providers/provider.ts'
import { createProviders } from './providers/registry.ts'
import type { ReturnConfig } from './providers/return-to.ts'
import { createSessions, type Sessions } from './sessions/sessions.ts'
import { type AuthSettings, createSettings } from './settings.ts'
import type { Passwords } from './sign-in/hashing.ts'
import { createLinking } from './sign-in/linking.ts'
import { createMagicLinks } from './sign-in/magic-link.ts'
import { createPasskeySignIn } from './sign-in/passkey.ts'
import { passkeyRoutes } from './sign-in/passkey-routes.ts'
import { createLogin, createPasswordCheck } from './sign-in/password.ts'
import { createPasswordChange, passwordChangeRoute } from './sign-in/password-change.ts'
import { signInRoutes } from './sign-in/routes.ts'
import { createSmsSignIn } from './sign-in/sms.ts'
import type { SmsConfig } from './sms-message.ts'
import type { Keys } from './tokens/jwt.ts'
import { replaceSalt, signingKeys } from './tokens/keys.ts'
import type { Revocations } from './tokens/revocations.ts'
import { relyingPartyOf } from './webauthn/relying-party.ts'

export type AuthConfig = AuthSettings &
  MailConfig &
  SmsConfig &
  ReturnConfig & {
    enabled: boolean
    token_duration: number
    refresh_token_duration: number
    refresh_grace_seconds: number
    min_password_length: number
    hash_queue: number
    login_backoff_failures: number
    login_backoff_window: number
    anonymous_retention_days: number
    webauthn_origins: readonly string[]
    oauth: Readonly<Record<string, ProviderConfig>>
  }

export type AuthDeps = Pick<IdentifyDeps, 'resolveApiKey' | 'resolveAdminToken' | 'resolveOAuthToken'> & {
  db: Db
  revocations: Revocations
  config: AuthConfig
  appName: string
  publicBaseUrl: () => string
  /** See loadRootSecret. */
  rootSecret: string
  /** For secrets at rest. */
  box: SecretBox
  passwords: Passwords
  /** For endpoints the operator configured. */
  outgoing: Outgoing
  observe: Observe
  queueMail: QueueMail
  wakeMail: () => void
  queueSms: (to: string, body: string) => Sql
  wakeSms: () => void
  foreign: ForeignCredentials
}

export type Auth = {
  routes: Route[]
  identify: Identify
  settings(): AuthSettings
  start(): void
  stop(): Promise<void>
}

/** There may be millions of sessions to end. */
const ROTATION_MS = 300_000

export function createAuth(deps: AuthDeps): Auth {
  const { db, revocations, config, passwords, rootSecret, publicBaseUrl } = deps
  const keys = keysOfSalt(rootSecret, () => revocations.salt())
  const settings = createSettings({ db, configured: config, known: revocations })
  const sessions = createSessions({ db, revocations, keys, config, hasSecondFactor })
  const identify = createIdentify({ ...deps, authEnabled: config.enabled, keys })

  const links = createMailLinks({ config, publicBaseUrl, queueMail: deps.queueMail })
  const foreign: ForeignCredentials = {
    endGrants: deps.foreign.endGrants,
    dropCredentials: (userId) => [dropFactors(userId), ...deps.foreign.dropCredentials(userId)],
  }
  const account = { db, revocations, passwords, sessions, links, wakeMail: deps.wakeMail, foreign }
  const providers = createProviders({ outgoing: deps.outgoing, config: config.oauth })
  const accounts = createAccounts(account)
  let sweeping: Loop | undefined

  async function rotate(act: Act): Promise<void> {
    await db.run(
      SYSTEM,
      [
        replaceSalt(),
        sql`delete from svc.sessions`,
        sql`delete from svc.pending_logins`,
        sql`delete from svc.oauth_states`,
        sql`select svc.revoke('all_users', '')`,
        auditStatement(act.audit()),
      ],
      { kind: 'slow', timeoutMs: ROTATION_MS },
    )
    await revocations.refresh()
  }

  const checkPassword = createPasswordCheck({ db, passwords, config })
  const userRoutes = [
    ...accountRoutes({
      accounts,
      login: createLogin({ db, checkPassword, sessions }),
      sessions,
      minPasswordLength: config.min_password_length,
    }),
    ...signInRoutes({
      accounts,
      magicLinks: createMagicLinks(account),
      linking: createLinking(account),
      sms: createSmsSignIn({ ...deps, sessions, codeKey: deriveKey(rootSecret, '', 'sms code') }),
      external: createExternalSignIn({ ...account, providers, config, publicBaseUrl }),
      providers,
      settings: settings.current,
      minPasswordLength: config.min_password_length,
    }),
    ...passkeyRoutes({
      passkeys: createPasskeySignIn({
        db,
        sessions,
        relyingParty: () => relyingParty(deps),
        decoyKey: deriveKey(rootSecret, '', 'passkey decoy'),
      }),
      settings: settings.current,
      relyingParty: () => relyingParty(deps),
    }),
    ...mfaRoutes({ db, settings: settings.current, ...createSecondFactors(deps, sessions) }),
    passwordChangeRoute({
      changePassword: createPasswordChange({
        ...account,
        checkPassword,
        queueMail: deps.queueMail,
        appName: deps.appName,
      }),
      minPasswordLength: config.min_password_length,
    }),
    ...pageRoutes(config),
    accountPageRoute({
      appName: deps.appName,
      settings: settings.current,
      minPasswordLength: config.min_password_length,
    }),
  ]

  return {
    routes: [...(config.enabled ? userRoutes : routesWhenOff), ...authAdminRoutes({ settings, rotate })],
    identify,
    settings: settings.current,
    start: () => {
      sweeping = sweepAuth(deps)
    },
    stop: async () => sweeping?.stop(),
  }
}

const relyingParty = ({ publicBaseUrl, appName, config }: AuthDeps) =>
  relyingPartyOf({ publicBaseUrl, appName, origins: config.webauthn_origins })

function createSecondFactors(deps: AuthDeps, sessions: Sessions) {
  const { db, box, appName } = deps
  const [enrolment, verification] = [createEnrolment({ db }), createVerification({ db, sessions })]
  // Of codes that live for minutes.
  const codeKey = deriveKey(deps.rootSecret, '', 'mfa code')
  const notice = passkeyNotice(deps)
  const sent = { enrolment, verification, codeKey }
  return {
    totp: createTotp({ enrolment, verification, box, appName }),
    email: createSentCodes(sent, emailChannel(deps)),
    sms: createSentCodes(sent, smsChannel(deps)),
    backupCodes: createBackupCodes({ db, verification, codeKey: createCodeKey({ db, box }) }),
    passkeys: createPasskeys({ ...deps, enrolment, verification, relyingParty: () => relyingParty(deps), notice }),
    credentials: createCredentials({ ...deps, notice }),
  }
}

/** Derived again only when the salt changes. */
function keysOfSalt(rootSecret: string, salt: () => string): () => Keys {
  let made = { salt: '', keys: signingKeys(rootSecret, '') }
  return () => {
    const current = salt()
    if (made.salt !== current) made = { salt: current, keys: signingKeys(rootSecret, current) }
    return made.keys
  }
}

const off = {
  summary: 'Auth is switched off',
  auth: 'none' as const,
  answers: {},
  bodyKind: 'none' as const,
  handle: async () => {
    throw notFound('auth is not enabled', 'feature_disabled')
  },
}
const routesWhenOff: Route[] = [
  route('GET /api/auth/{rest...}', off),
  route('POST /api/auth/{rest...}', off),
  route('PUT /api/auth/{rest...}', off),
  route('PATCH /api/auth/{rest...}', off),
  route('DELETE /api/auth/{rest...}', off),
]
