import { htmlDocument } from '../../http/html/document.ts'
import { type Route, route } from '../../http/route.ts'

/** Where people are asked, with nothing but the public API. The parameters are those of authorize, and stay in its URL. */
export const consentPage = (deps: { appName: string; hasPasskeys: () => boolean; requires: () => void }): Route =>
  route('GET /oauth/consent', {
    summary: 'Page where people are asked for their consent',
    auth: 'none',
    requires: deps.requires,
    answers: { 200: { content: 'text/html' } },
    handle: () =>
      htmlDocument({
        page: 'consent',
        title: `${deps.appName}: grant access`,
        body: '<main></main>',
        data: { passkeys: deps.hasPasskeys() ? 'on' : 'off', app: deps.appName },
      }),
  })
