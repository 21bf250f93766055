import { unauthorized } from '../../core/errors.ts'
import { ON_BEHALF } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Db } from '../../db/db.ts'
import { htmlDocument } from '../../http/html/document.ts'
import { type Call, json, type Reply, type Route, route } from '../../http/route.ts'
import type { ClientTokens } from '../../identity/client-tokens.ts'
import type { FormFields } from './authorization-request.ts'
import type { BrowserSessions } from './browser-sessions.ts'
import { type Client, clientNamed } from './client-sql.ts'
import type { PageDeps } from './consent-page.ts'
import { NO_STORE, refuseRepeated } from './consent-routes.ts'
import { errorBody, OAuthError, refuse, unknownClient, usedBefore } from './errors.ts'
import type { Prompts } from './prompts.ts'

export type LogoutDeps = Pick<PageDeps, 'appName' | 'requires'> & {
  db: Db
  browsers: BrowserSessions
  prompts: Prompts
  tokens: Pick<ClientTokens, 'readIdToken'>
  endSession: (userId: string, sessionId: string) => Promise<void>
}

/** Where the browser goes after a logout; null: it stays. */
type ShownLogout = { target: string | null }

/**
 * RP-initiated logout (OpenID Connect RP-Initiated Logout 1.0). An ID token names the session that ends; without one the user
 * confirms it, because any site can send a browser here.
 */
export function logoutRoutes(deps: LogoutDeps): Route[] {
  const { db, browsers, prompts, requires } = deps

  const page = async (own: { formToken?: string; user?: string; problem?: string }, status = 200): Promise<Reply> => {
    const data = { app: deps.appName, formToken: '', user: '', problem: '', ...own }
    const title = `${deps.appName}: sign out`
    return { ...(await htmlDocument({ page: 'logout', title, layout: 'narrow', body: '<main></main>', data })), status }
  }

  async function logout(call: Call, fields: FormFields): Promise<Reply> {
    refuseRepeated(call)
    const given = fields['id_token_hint'] ?? ''
    const hint = given === '' ? undefined : deps.tokens.readIdToken(given)
    if (given !== '' && !hint) throw refuse('invalid_request', 'id_token_hint is not an ID token of this server')
    if (hint && fields['client_id'] && fields['client_id'] !== hint.aud) {
      throw refuse('invalid_request', 'client_id differs from the one of id_token_hint')
    }
    const target = await targetOf(hint?.aud ?? fields['client_id'], fields)
    if (hint?.sid !== undefined) await deps.endSession(hint.sub, hint.sid)
    const user = await browsers.userOf(call.headers['cookie'])
    if (user && hint?.sid === undefined) {
      const formToken = await prompts.keep('logout', user, { target } satisfies ShownLogout)
      return page({ formToken, user: user.email })
    }
    const own: Record<string, string> = user ? {} : { 'Set-Cookie': browsers.noCookie }
    if (target === null) {
      const reply = await page({})
      return { ...reply, headers: { ...reply.headers, ...own } }
    }
    return { status: 302, headers: { ...NO_STORE, ...own, 'Referrer-Policy': 'no-referrer', Location: target } }
  }

  /** Section 3: only to an address that the client registered. */
  async function targetOf(clientId: string | undefined, fields: FormFields): Promise<string | null> {
    const uri = fields['post_logout_redirect_uri'] ?? ''
    if (uri === '') return null
    if (!clientId) throw refuse('invalid_request', 'post_logout_redirect_uri needs id_token_hint or client_id')
    const [client] = await db.rows<Client>(ON_BEHALF, clientNamed(clientId))
    if (!client || client.revokedAt) throw unknownClient()
    if (!client.postLogoutRedirectUris.includes(uri)) {
      throw refuse('invalid_request', 'post_logout_redirect_uri is not registered')
    }
    const target = new URL(uri)
    if (fields['state']) target.searchParams.set('state', fields['state'])
    return target.href
  }

  const shown = (call: Call, fields: FormFields): Promise<Reply> =>
    logout(call, fields).catch((error: unknown) => {
      if (error instanceof OAuthError) return page({ problem: error.message }, error.status)
      throw error
    })

  const parameters = {
    id_token_hint: t.optional(t.string({ description: 'names the session that ends' })),
    client_id: t.optional(t.string()),
    post_logout_redirect_uri: t.optional(t.string({ description: 'one that the client registered' })),
    state: t.optional(t.string()),
  }
  const endpoint = {
    summary: 'Page that signs people out (OpenID Connect RP-Initiated Logout)',
    auth: 'none',
    requires,
    errorBody,
    answers: { 200: { content: 'text/html' }, 302: null },
  } as const

  return [
    route('GET /oauth/logout', { ...endpoint, query: parameters, handle: (call) => shown(call, call.query) }),
    route('POST /oauth/logout', {
      ...endpoint,
      bodyKind: 'form',
      bodyLimit: 32_000,
      accepts: t.object(parameters),
      handle: (call) => shown(call, call.body as FormFields),
    }),
    route('POST /oauth/logout/confirm', {
      summary: 'Ends the session of a browser that is signed in by the cookie of the pages',
      auth: 'none',
      requires,
      bodyLimit: 10_000,
      errorBody,
      accepts: t.object({ form_token: t.string({ description: 'of the page; good once' }) }),
      answers: { 200: t.object({ redirect_to: t.nullable(t.string()) }) },
      handle: async (call) => {
        const user = await browsers.userOf(call.headers['cookie'])
        if (!user) throw unauthorized('not authenticated')
        const body = (call.body ?? {}) as Readonly<Record<string, unknown>>
        const { shown, spend } = await prompts.read<ShownLogout>('logout', user, body['form_token'])
        if ((await db.run(ON_BEHALF, spend)) === 0) throw usedBefore()
        await deps.endSession(user.id, user.sessionId)
        const headers = { ...NO_STORE, 'Set-Cookie': browsers.noCookie }
        return { ...json(200, { redirect_to: shown.target }), headers }
      },
    }),
  ]
}
