import type { Sql } from '../../db/sql.ts'
import type { Route } from '../../http/route.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import type { Verification } from '../../identity/second-factor.ts'
import { requireSetting } from '../../identity/settings.ts'
import { createCredentials } from './credentials.ts'
import { createPasskeyFactor } from './factor.ts'
import { factorRoutes } from './factor-routes.ts'
import { passkeyNotice } from './notices.ts'
import { createPasskeySignIn } from './sign-in.ts'
import { signInRoutes } from './sign-in-routes.ts'
import { relyingPartyOf } from './webauthn/relying-party.ts'

type Needed = 'db' | 'settings' | 'appName' | 'publicBaseUrl' | 'startSession' | 'queueMail' | 'wakeMail'

export type PasskeyDeps = Pick<IdentityDeps, Needed> & {
  config: { webauthn_origins: readonly string[] }
  decoyKey: Buffer
  verification: Verification
  endOtherSessions: (userId: string, keep: string) => Sql
  /** Drops the sessions from this process's cache at once. */
  onSessionsEnded: (ids: readonly string[]) => void
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
