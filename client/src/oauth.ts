import type { SignIn } from './accounts.ts'
import { accountsOf, type CallOptions, type Core, queryText, randomText, segment } from './core.ts'
import type { User } from './session-store.ts'

/** Signing in with other services, in a browser. After `createAuth`. */
export function createOauth(core: Core) {
  const { signIn } = accountsOf(core)
  const kept = `savanna:oauth:${core.url}`
  return {
    /** Leaves for the provider. Afterwards `returned()` signs in, on the page at `redirectTo`. */
    oauth(provider: string, { redirectTo = location.href }: { redirectTo?: string } = {}): void {
      const state = randomText()
      sessionStorage.setItem(kept, state)
      const target = new URL(redirectTo, location.href)
      target.searchParams.set('svc_state', state)
      target.hash = ''
      location.assign(`${core.url}/api/auth/oauth/${segment(provider)}${queryText({ redirect_to: target.href })}`)
    },
    /** Signs in with what a provider's page brought back, if `oauth()` of this tab asked for it. */
    async returned(call?: CallOptions): Promise<SignIn | null> {
      const here = new URL(location.href)
      const state = here.searchParams.get('svc_state')
      const brought = new URLSearchParams(here.hash.slice(1))
      if (!state) return null
      here.searchParams.delete('svc_state')
      here.hash = ''
      history.replaceState(history.state, '', here)
      // A token that an attacker put behind the address would sign the visitor in as the attacker.
      if (state !== sessionStorage.getItem(kept)) return null
      sessionStorage.removeItem(kept)
      const [token = '', refreshToken = '', mfa_token = ''] = ['token', 'refreshToken', 'mfa_token'].map(
        (name) => brought.get(name) ?? '',
      )
      if (!mfa_token && !(token && refreshToken)) return null
      const user = mfa_token ? undefined : await core.send<User>('GET', '/api/auth/me', { token }, call)
      return signIn({ token, refreshToken, user: user as User, mfa_token })
    },
  }
}
