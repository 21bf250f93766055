import type { Outgoing } from '../../../http/out/outgoing.ts'
import { fetchJson, foreignToken, isObject, type ProviderConfig, providerFailed } from './provider.ts'

/**
 * A token given to another application must not sign its user in here (the "confused deputy"). Providers put
 * the client of a token into different claims; each claim that is present must name us.
 */
export function requireAudience(clientId: string, claims: Readonly<Record<string, unknown>>): void {
  const named = [claims['azp'], claims['client_id']].filter((value) => typeof value === 'string')
  if (named.length > 0) {
    if (!named.every((client) => client === clientId)) throw foreignToken()
    return
  }
  const audience = claims['aud']
  if (typeof audience === 'string' && audience !== clientId) throw foreignToken()
  if (Array.isArray(audience) && !audience.includes(clientId)) throw foreignToken()
}

/** Claims of an access token that is a JWT. Unverified: only for tokens the provider itself just accepted. */
export function jwtClaims(accessToken: string): Readonly<Record<string, unknown>> {
  const payload = accessToken.split('.').length === 3 ? accessToken.split('.')[1] : undefined
  if (payload === undefined) return {}
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'))
    // `aud` of an access token is the resource it is for (RFC 9068, 2.2), not the client.
    return isObject(claims) ? { azp: claims['azp'], client_id: claims['client_id'] } : {}
  } catch {
    return {}
  }
}

type TokenCheck = { outgoing: Outgoing; config: ProviderConfig; accessToken: string; builtIn: boolean }

/** Google's tokeninfo endpoint returns the audience of a token. */
export async function requireAudienceAtGoogle(check: TokenCheck & { tokenUrl: string }): Promise<void> {
  const url = new URL('tokeninfo', check.tokenUrl)
  url.searchParams.set('access_token', check.accessToken)
  const { status, body } = await fetchJson(check.outgoing, { method: 'GET', url: url.href })
  if (status === 200 && isObject(body)) requireAudience(check.config.client_id, body)
  else if (check.builtIn) throw status === 400 ? foreignToken() : providerFailed()
}

/** GitHub's "check a token" accepts only tokens of the calling application. */
export async function requireAudienceAtGitHub(check: TokenCheck & { userUrl: string }): Promise<void> {
  const { client_id, client_secret } = check.config
  const { status, body } = await fetchJson(check.outgoing, {
    method: 'POST',
    url: new URL(`applications/${encodeURIComponent(client_id)}/token`, check.userUrl).href,
    headers: {
      authorization: `Basic ${Buffer.from(`${client_id}:${client_secret}`).toString('base64')}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ access_token: check.accessToken }),
  })
  if (status === 200) return
  // GitHub's errors always have a documentation_url; other servers have no such endpoint.
  const isGitHub = isObject(body) && typeof body['documentation_url'] === 'string'
  if (isGitHub && (status === 404 || status === 422)) throw foreignToken()
  if (check.builtIn || isGitHub) throw providerFailed()
}
