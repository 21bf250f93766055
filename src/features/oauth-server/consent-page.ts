import { AppError } from '../../core/errors.ts'
import { htmlDocument } from '../../http/html/document.ts'
import { type Reply, type Route, route } from '../../http/route.ts'
import type { Authorize } from './authorize.ts'
import type { BrowserSessions } from './browser-sessions.ts'
import { addressBack, promptOf, redirectReply, refuseRepeated, type ShownConsent } from './consent-routes.ts'
import { errorBody, OAuthError } from './errors.ts'
import type { Prompts } from './prompts.ts'

export type PageDeps = {
  appName: string
  hasPasskeys: () => boolean
  requires: () => void
  publicBaseUrl: () => string
}

type ConsentPageDeps = PageDeps & { authorize: Authorize; browsers: BrowserSessions; prompts: Prompts }

const NOTHING = { prompt: '', formToken: '', user: '', login: '', problem: '' }

/**
 * The authorization endpoint that people see. Its URL has the parameters of authorize. A browser that is signed in by its
 * cookie gets its code without a page where the user agreed before, and sees what it is about at once where not; with `prompt=none` it
 * never sees a page.
 */
export const consentPage = (deps: ConsentPageDeps): Route =>
  route('GET /oauth/consent', {
    summary: 'Page where people give their consent',
    auth: 'none',
    requires: deps.requires,
    errorBody,
    answers: { 200: { content: 'text/html' }, 302: null },
    handle: async (call) => {
      const { authorize, browsers, prompts } = deps
      const page = async (own: Partial<typeof NOTHING>, status = 200): Promise<Reply> => {
        const passkeys = deps.hasPasskeys() ? 'on' : 'off'
        const data = { passkeys, app: deps.appName, ...NOTHING, ...own } as const
        const title = `${deps.appName}: grant access`
        return { ...(await htmlDocument({ page: 'consent', title, body: '<main></main>', data })), status }
      }
      const user = await browsers.userOf(call.headers['cookie'])
      try {
        const { fields } = await authorize.parametersOf(call.query)
        const login = fields['login_hint'] ?? ''
        // What is wrong with a request is shown to those who signed in.
        if (!user && fields['prompt'] !== 'none') return await page({ login })
        refuseRepeated(call)
        const decided = await authorize.decide(call.query, user, 'cookie', call.ip)
        if (decided.kind === 'redirect') {
          return redirectReply(addressBack(decided.request, decided.answer, deps.publicBaseUrl()), false)
        }
        if (decided.kind === 'sign in' || !user) return await page({ login })
        const { client, request } = decided.open
        const shown: ShownConsent = { clientId: client.clientId, request }
        const formToken = await prompts.keep('consent', user, shown)
        return await page({ prompt: JSON.stringify(promptOf(decided.open)), formToken, user: user.email, login })
      } catch (error) {
        // A session of one factor, of a user who has two.
        if (error instanceof AppError && error.errorCode === 'insufficient_aal') return page({})
        if (error instanceof OAuthError) return page({ problem: error.message }, error.status)
        throw error
      }
    },
  })
