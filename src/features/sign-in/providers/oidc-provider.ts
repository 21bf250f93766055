import type * as OpenId from 'openid-client'
import { isMistake } from '../../../core/errors.ts'
import type { Outgoing } from '../../../http/out/outgoing.ts'
import { jwtClaims, requireAudience, requireAudienceAtGoogle } from './audience.ts'
import { profileOf } from './profile.ts'
import {
  authorizeAddress,
  fetchClaims,
  foreignToken,
  MAX_PROVIDER_BYTES,
  type ProviderContext,
  providerFailed,
  type SignInProvider,
  signInRefused,
  TIMEOUT_MS,
} from './provider.ts'

const DISCOVERY_MS = 3_600_000

/** Library errors for a valid HTTP response with an invalid ID token or parameters. */
const BAD_ANSWER = /^OAUTH_(JWT_|KEY_SELECTION|INVALID_RESPONSE|JSON_ATTRIBUTE|UNSUPPORTED_OPERATION)/

/** Any OpenID Connect issuer, by discovery; state, nonce, PKCE, issuer, audience and signature are all checked. */
export function oidcProvider(
  { outgoing, name, config }: ProviderContext,
  /** Configured, so that a sign-in can begin while the provider's discovery is unreachable. */
  authorizeEndpoint?: string,
): SignInProvider {
  let discovered: { at: number; discovery: Promise<Discovery> } | undefined

  function discovery(): Promise<Discovery> {
    if (!discovered || performance.now() - discovered.at > DISCOVERY_MS) {
      const fresh = { at: performance.now(), discovery: discover(outgoing, config) }
      discovered = fresh
      fresh.discovery.catch(() => {
        if (discovered === fresh) discovered = undefined
      })
    }
    return discovered.discovery
  }

  async function userinfo({ metadata }: Discovery, accessToken: string) {
    if (!metadata.userinfo_endpoint) throw providerFailed()
    return fetchClaims(outgoing, metadata.userinfo_endpoint, accessToken)
  }

  /** Addresses may be in the ID token or only at the userinfo endpoint (OpenID Connect Core, 5.4). */
  async function addressOf(provider: Discovery, claims: OpenId.IDToken, accessToken: string) {
    if (claims['email'] !== undefined || !provider.metadata.userinfo_endpoint) return profileOf(name, claims)
    const more = await userinfo(provider, accessToken)
    if (more['sub'] !== claims.sub) throw providerFailed()
    return profileOf(name, { ...more, sub: claims.sub })
  }

  async function requireIntrospected(provider: Discovery, accessToken: string): Promise<void> {
    if (!provider.metadata.introspection_endpoint) return
    const introspected = await provider.openid
      .tokenIntrospection(provider.configuration, accessToken)
      .catch(() => undefined)
    if (introspected === undefined) return
    if (!introspected.active) throw providerFailed()
    if (introspected.client_id !== undefined && introspected.client_id !== config.client_id) throw foreignToken()
  }

  return {
    name,

    async authorizeUrl(params) {
      const endpoint = authorizeEndpoint ?? (await discovery()).metadata.authorization_endpoint
      if (endpoint === undefined) throw providerFailed()
      return authorizeAddress(endpoint, config, params, { nonce: params.nonce })
    },

    async exchange(params, answer) {
      const provider = await discovery()
      try {
        const tokens = await provider.openid.authorizationCodeGrant(
          provider.configuration,
          new URL(`${params.callbackUrl}?${answer}`),
          { expectedState: params.state, expectedNonce: params.nonce, pkceCodeVerifier: params.codeVerifier },
        )
        const claims = tokens.claims()
        const profile = claims && (await addressOf(provider, claims, tokens.access_token))
        if (!profile) throw providerFailed()
        return profile
      } catch (error) {
        throw asSignInError(error)
      }
    },

    async profileOfToken(accessToken) {
      const provider = await discovery()
      const claims = await userinfo(provider, accessToken)
      requireAudience(config.client_id, claims)
      requireAudience(config.client_id, jwtClaims(accessToken))
      await requireIntrospected(provider, accessToken)
      if (name === 'google' && provider.metadata.token_endpoint) {
        const tokenUrl = provider.metadata.token_endpoint
        await requireAudienceAtGoogle({
          outgoing,
          config,
          accessToken,
          tokenUrl,
          builtIn: new URL(tokenUrl).host.endsWith('.googleapis.com'),
        })
      }
      const profile = profileOf(name, claims)
      if (!profile) throw providerFailed()
      return profile
    },
  }
}

type Discovery = { openid: typeof OpenId; configuration: OpenId.Configuration; metadata: OpenId.ServerMetadata }

async function discover(outgoing: Outgoing, config: ProviderContext['config']): Promise<Discovery> {
  // Loaded when first used: most servers have no external provider.
  const openid = await import('openid-client')
  const issuer = new URL(config.issuer)
  const options: OpenId.DiscoveryRequestOptions = {
    [openid.customFetch]: fetchThrough(outgoing),
    timeout: TIMEOUT_MS / 1000,
    execute: [
      openid.enableNonRepudiationChecks,
      ...(issuer.protocol === 'http:' ? [openid.allowInsecureRequests] : []),
    ],
  }
  try {
    const auth = secretAuth(openid, config)
    const configuration = await openid.discovery(issuer, config.client_id, config.client_secret, auth, options)
    return { openid, configuration, metadata: configuration.serverMetadata() }
  } catch (error) {
    throw providerFailed(error)
  }
}

/** In the body if the provider supports it, else by HTTP Basic, the default of RFC 8414. */
function secretAuth(openid: typeof OpenId, { client_secret }: ProviderContext['config']): OpenId.ClientAuth {
  const [inBody, basic] = [openid.ClientSecretPost(client_secret), openid.ClientSecretBasic(client_secret)]
  return (server, ...rest) => {
    const offered = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    return (offered.includes('client_secret_post') ? inBody : basic)(server, ...rest)
  }
}

/** Sends the library's requests through `outgoing`, with its address guard. */
function fetchThrough(outgoing: Outgoing): OpenId.CustomFetch {
  return async (url, { method, headers, body }) => {
    const text = body === null || body === undefined ? undefined : String(body)
    const answer = await outgoing.request({
      method: method as 'GET' | 'POST',
      url,
      headers,
      ...(text !== undefined && { body: text }),
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_PROVIDER_BYTES,
    })
    const hasBody = answer.status !== 204 && answer.status !== 304
    return new Response(hasBody ? answer.body : null, { status: answer.status, headers: plain(answer.headers) })
  }
}

/** `outgoing` has decoded the body, so its encoding headers no longer apply. */
const plain = ({ 'content-encoding': _coding, 'content-length': _length, ...headers }: Record<string, string>) =>
  headers

function asSignInError(error: unknown): unknown {
  if (isMistake(error)) return error
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code === 'string' && BAD_ANSWER.test(code)) return signInRefused(error)
  return providerFailed(error)
}
