import { badRequest } from '../../../core/errors.ts'
import type { Outgoing } from '../../../http/out/outgoing.ts'
import { oidcProvider } from './oidc-provider.ts'
import { type Endpoints, plainProvider } from './plain-provider.ts'
import type { ProviderConfig, SignInProvider } from './provider.ts'

const builtIn: Readonly<Record<string, Omit<Endpoints, 'builtIn'> & { issuer: string; scopes: string[] }>> = {
  google: {
    issuer: 'https://accounts.google.com',
    authorize: 'https://accounts.google.com/o/oauth2/v2/auth',
    token: 'https://oauth2.googleapis.com/token',
    userinfo: 'https://openidconnect.googleapis.com/v1/userinfo',
    scopes: ['openid', 'email', 'profile'],
  },
  github: {
    issuer: '',
    authorize: 'https://github.com/login/oauth/authorize',
    token: 'https://github.com/login/oauth/access_token',
    userinfo: 'https://api.github.com/user',
    scopes: ['read:user', 'user:email'],
  },
}

export type Providers = (name: string) => SignInProvider

/** The lookup throws for a provider that is not configured or not enabled. */
export function createProviders(deps: {
  outgoing: Outgoing
  config: Readonly<Record<string, ProviderConfig>>
}): Providers {
  const providers = new Map<string, SignInProvider>()
  for (const [name, config] of Object.entries(deps.config)) {
    if (config.enabled) providers.set(name, createProvider(deps.outgoing, name, config))
  }
  return (name) => {
    const provider = providers.get(name)
    if (!provider) throw badRequest(`OAuth provider "${name}" not configured`, 'provider_not_configured')
    return provider
  }
}

/** Explicit endpoints win over discovery. */
function createProvider(outgoing: Outgoing, name: string, given: ProviderConfig): SignInProvider {
  const preset = Object.hasOwn(builtIn, name) ? builtIn[name] : undefined
  const overridden = given.authorize_url !== '' || given.token_url !== '' || given.userinfo_url !== ''
  const config: ProviderConfig = {
    ...given,
    issuer: given.issuer || preset?.issuer || '',
    scopes: given.scopes.length > 0 ? given.scopes : (preset?.scopes ?? ['openid', 'email', 'profile']),
  }
  if (config.issuer !== '' && !overridden) {
    return oidcProvider({ outgoing, name, config }, config.issuer === preset?.issuer ? preset.authorize : undefined)
  }
  return plainProvider(
    { outgoing, name, config },
    {
      authorize: given.authorize_url || preset?.authorize || '',
      token: given.token_url || preset?.token || '',
      userinfo: given.userinfo_url || preset?.userinfo || '',
      builtIn: !overridden,
    },
  )
}
