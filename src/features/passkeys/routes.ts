import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import type { Route } from '../../http/route.ts'
import type { QueueMail } from '../../identity/mail-links.ts'
import type { StartSession } from '../../identity/session.ts'
import { type AuthSettings, requireSetting } from '../../identity/settings.ts'
import { createCredentials } from './credentials.ts'
import { createPasskeyFactor, type PasskeyVerification } from './factor.ts'
import { factorRoutes } from './factor-routes.ts'
import { passkeyNotice } from './notices.ts'
import { createPasskeySignIn } from './sign-in.ts'
import { signInRoutes } from './sign-in-routes.ts'
import { relyingPartyOf } from './webauthn/relying-party.ts'

export type PasskeyDeps = {
  db: Db
  config: { webauthn_origins: readonly string[] }
  settings: () => AuthSettings
  appName: string
  publicBaseUrl: () => string
  decoyKey: Buffer
  startSession: StartSession
  verification: PasskeyVerification
  endOtherSessions: (userId: string, keep: string) => Sql
  /** Drops the sessions from this process's cache at once. */
  onSessionsEnded: (ids: readonly string[]) => void
  queueMail: QueueMail
  wakeMail: () => void
}

/** Passkeys, for sign-in and as a second factor. */
export function createPasskeys(deps: PasskeyDeps): { routes: Route[] } {
  const { settings, appName, publicBaseUrl } = deps
  const relyingParty = () => relyingPartyOf({ publicBaseUrl, appName, origins: deps.config.webauthn_origins })
  const notice = passkeyNotice(deps)
  return {
    routes: [
      ...signInRoutes({
        passkeys: createPasskeySignIn({ ...deps, relyingParty }),
        requires: requireSetting(settings, 'webauthn_enabled', 'WebAuthn'),
        relyingParty,
      }),
      ...factorRoutes({
        passkeys: createPasskeyFactor({ ...deps, relyingParty, notice }),
        credentials: createCredentials({ ...deps, notice }),
        requires: requireSetting(settings, 'webauthn_enabled', 'WebAuthn MFA'),
      }),
    ],
  }
}
