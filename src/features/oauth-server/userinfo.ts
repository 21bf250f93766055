import { AppError } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import { bearerOf } from '../../http/guard.ts'
import { type Call, json, type Reply, type Route, route } from '../../http/route.ts'
import { invalidToken } from '../../identity/errors.ts'
import type { AccessTokens } from './access-tokens.ts'

const claims = t.open(
  t.object({
    sub: t.uuid({ description: 'the id of the user' }),
    email: t.optional(t.string()),
    email_verified: t.optional(t.boolean()),
    updated_at: t.optional(t.integer()),
  }),
)

/** OpenID Connect Core, section 5.3. The codes of its errors are those of RFC 6750, section 3.1. */
export function userInfoRoutes({
  accessTokens,
  requires,
}: {
  accessTokens: AccessTokens
  requires: () => void
}): Route[] {
  const endpoint = {
    summary: 'Who the user of an access token is, as far as its scope says (OpenID Connect)',
    auth: 'none',
    bodyKind: 'none',
    anyOrigin: true,
    requires,
    answers: { 200: claims },
    handle: async (call: Call): Promise<Reply> => {
      try {
        const bearer = bearerOf(call.headers['authorization'])
        if (bearer === undefined) throw invalidToken()
        return { ...json(200, await accessTokens.userInfo(bearer)), headers: { 'Cache-Control': 'no-store' } }
      } catch (error) {
        throw error instanceof AppError && (error.status === 401 || error.status === 403) ? challenge(error) : error
      }
    },
  } as const
  return [route('GET /api/oauth/userinfo', endpoint), route('POST /api/oauth/userinfo', endpoint)]
}

const challenge = ({ status, message }: AppError): AppError => {
  const code = status === 401 ? 'invalid_token' : 'insufficient_scope'
  return new AppError(code, message, {
    headers: { 'WWW-Authenticate': `Bearer error="${code}", error_description="${message}"` },
  })
}
