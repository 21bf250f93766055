import { escapeHtml, htmlDocument } from '../../../http/html/document.ts'
import { type Route, route } from '../../../http/route.ts'
import type { IdentityDeps } from '../../../identity/deps.ts'

type Deps = Pick<IdentityDeps, 'appName' | 'settings'> & {
  minPasswordLength: number
  hasGrants: boolean
  hasAgents: boolean
}

/** The page where users manage their account, through the public API only. */
export const accountPageRoute = ({ appName, settings, minPasswordLength, hasGrants, hasAgents }: Deps): Route =>
  route('GET /account', {
    summary: 'Page where people look after their account',
    auth: 'none',
    answers: { 200: { content: 'text/html' } },
    handle: () => {
      const { webauthn_enabled, totp_enabled } = settings()
      return htmlDocument({
        page: 'account',
        title: `Your ${appName} account`,
        body: `<main><h1>Your ${escapeHtml(appName)} account</h1></main>`,
        data: {
          passkeys: webauthn_enabled ? 'on' : 'off',
          totp: totp_enabled ? 'on' : 'off',
          grants: hasGrants ? 'on' : 'off',
          agents: hasAgents ? 'on' : 'off',
          minPassword: String(minPasswordLength),
        },
      })
    },
  })
