import * as t from '../../../core/json-type.ts'
import { json, type Reply, type Route, route } from '../../../http/route.ts'
import { signedInOrPending } from '../../../identity/responses.ts'
import { type AuthResponse, deviceOf } from '../../../identity/session.ts'
import type { ExternalSignIn } from './external-sign-in.ts'

export const providerRoutes = (external: ExternalSignIn): Route[] => [
  route('GET /api/auth/oauth/{provider}', {
    summary: 'Go to an external provider to sign in',
    auth: 'none',
    limit: 'login',
    query: { redirect_to: t.string({ description: 'where the sign-in ends; its host must be allowed' }) },
    answers: { 302: null },
    handle: async ({ params, query, headers }) => {
      const { url, cookie } = await external.start(params.provider, query['redirect_to'], headers['cookie'])
      return redirect(url, { 'Set-Cookie': cookie })
    },
  }),
  route('GET /api/auth/oauth/{provider}/callback', {
    summary: 'Where the provider sends the browser back to',
    auth: 'none',
    answers: { 200: signedInOrPending, 302: null },
    handle: async (call) => {
      const { params, query, headers } = call
      const { returnTo, response } = await external.finish(params.provider, query, headers['cookie'], deviceOf(call))
      return returnTo === '' ? json(200, response) : redirect(`${returnTo.split('#')[0]}#${fragmentOf(response)}`)
    },
  }),
]

/** 302 and no referrer: the next URL carries tokens or a state. */
const redirect = (location: string, headers: Record<string, string> = {}): Reply => ({
  status: 302,
  headers: { Location: location, 'Referrer-Policy': 'no-referrer', ...headers },
})

const fragmentOf = (response: AuthResponse): URLSearchParams =>
  'token' in response
    ? new URLSearchParams({ token: response.token, refreshToken: response.refreshToken })
    : new URLSearchParams({ mfa_pending: 'true', mfa_token: response.mfa_token })
