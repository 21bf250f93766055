import { htmlDocument } from '../../http/html/document.ts'
import { type Route, route } from '../../http/route.ts'

/** The consent page, which uses only the public API. Its URL has the parameters of authorize. */
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
