import { jwtClaims, requireAudience, requireAudienceAtGitHub, requireAudienceAtGoogle } from './audience.ts'
import { type Profile, profileOf } from './profile.ts'
import {
  authorizeAddress,
  bearer,
  fetchClaims,
  fetchJson,
  isObject,
  type ProviderContext,
  providerFailed,
  type SignInProvider,
} from './provider.ts'

export type Endpoints = { authorize: string; token: string; userinfo: string; builtIn: boolean }

/** OAuth 2.0 without OpenID Connect: the access token is used only to read the user's profile. */
export function plainProvider({ outgoing, name, config }: ProviderContext, endpoints: Endpoints): SignInProvider {
  async function whose(accessToken: string): Promise<Profile> {
    const claims = await fetchClaims(outgoing, endpoints.userinfo, accessToken)
    requireAudience(config.client_id, claims)
    const address = name === 'github' ? await gitHubAddress(accessToken) : {}
    const profile = profileOf(name, { ...claims, ...address })
    if (!profile) throw providerFailed()
    return profile
  }

  /** The profile shows an address of the user's choice; only this list has the primary, verified one. */
  async function gitHubAddress(accessToken: string): Promise<{ email?: unknown; email_verified: boolean }> {
    const url = `${endpoints.userinfo}/emails`
    const { status, body } = await fetchJson(outgoing, { method: 'GET', url, headers: bearer(accessToken) })
    if (status !== 200 || !Array.isArray(body)) return { email_verified: false }
    const addresses = body.filter(isObject)
    const best = addresses.find((one) => one['primary'] === true) ?? addresses[0]
    return best ? { email: best['email'], email_verified: best['verified'] === true } : { email_verified: false }
  }

  async function redeem(code: string, codeVerifier: string, callbackUrl: string): Promise<string> {
    const { status, body } = await fetchJson(outgoing, {
      method: 'POST',
      url: endpoints.token,
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        code,
        redirect_uri: callbackUrl,
        client_id: config.client_id,
        client_secret: config.client_secret,
        code_verifier: codeVerifier,
      }).toString(),
    })
    const token = isObject(body) ? body['access_token'] : undefined
    if (status !== 200 || typeof token !== 'string' || token === '') throw providerFailed()
    return token
  }

  return {
    name,

    async authorizeUrl(params) {
      return authorizeAddress(endpoints.authorize, config, params)
    },

    async exchange(params, answer) {
      return whose(await redeem(answer.get('code') ?? '', params.codeVerifier, params.callbackUrl))
    },

    async profileOfToken(accessToken) {
      const profile = await whose(accessToken)
      requireAudience(config.client_id, jwtClaims(accessToken))
      const check = { outgoing, config, accessToken, builtIn: endpoints.builtIn }
      if (name === 'google') await requireAudienceAtGoogle({ ...check, tokenUrl: endpoints.token })
      if (name === 'github') await requireAudienceAtGitHub({ ...check, userUrl: endpoints.userinfo })
      return profile
    },
  }
}
