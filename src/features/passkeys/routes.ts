import type { Observe } from '../../core/observe.ts'
import type { Route } from '../../http/route.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import type { EndsSessions, Verification } from '../../identity/second-factor.ts'
import { requireSetting } from '../../identity/settings.ts'
import { createRefusalLog } from '../../identity/webauthn/refusal-log.ts'
import { relyingPartyOf } from '../../identity/webauthn/relying-party.ts'
import { createCredentials } from './credentials.ts'
import { createPasskeyFactor } from './factor.ts'
import { factorRoutes } from './factor-routes.ts'
import { passkeyNotice } from './notices.ts'
import { createPasskeySignIn } from './sign-in.ts'
import { signInRoutes } from './sign-in-routes.ts'

type Needed = 'db' | 'settings' | 'appName' | 'publicBaseUrl' | 'startSession' | 'queueMail' | 'wakeMail'

export type PasskeyDeps = Pick<IdentityDeps, Needed> &
  EndsSessions & {
    config: { webauthn_origins: readonly string[] }
    decoyKey: Buffer
    observe: Observe
    verification: Verification
  }

/** Passkeys, for sign-in and as a second factor. */
export function createPasskeys(deps: PasskeyDeps): { routes: Route[] } {
  const { settings, appName, publicBaseUrl } = deps
  const relyingParty = () => relyingPartyOf({ publicBaseUrl, appName, origins: deps.config.webauthn_origins })
  const notice = passkeyNotice(deps)
  const onRefused = createRefusalLog(deps.observe)
  return {
    routes: [
      ...signInRoutes({
        passkeys: createPasskeySignIn({ ...deps, relyingParty, onRefused }),
        requires: requireSetting(settings, 'webauthn_enabled', 'WebAuthn'),
        relyingParty,
      }),
      ...factorRoutes({
        passkeys: createPasskeyFactor({ ...deps, relyingParty, notice, onRefused }),
        credentials: createCredentials({ ...deps, notice }),
        requires: requireSetting(settings, 'webauthn_enabled', 'WebAuthn MFA'),
      }),
    ],
  }
}
