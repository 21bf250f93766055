import { escapeHtml, htmlDocument } from '../../../http/html/document.ts'
import { signInScripts } from '../../../http/html/sign-in-script.ts'
import { type Reply, type Route, route } from '../../../http/route.ts'
import type { AuthSettings } from '../../../identity/settings.ts'
import { accountScript } from './account-script.ts'
import { factorsScript } from './factors-script.ts'
import { passkeysScript } from './passkeys-script.ts'
import { qrScript } from './qr-script.ts'

const scripts = [...signInScripts, qrScript, passkeysScript, factorsScript, accountScript]

type Deps = { appName: string; settings: () => AuthSettings; minPasswordLength: number }

/** Where people look after their own account, with nothing but the public API. */
export function accountPageRoute(deps: Deps): Route {
  // One for each position of the switches.
  const made = new Map<string, Reply>()
  return route('GET /account', {
    summary: 'Page where people look after their account',
    auth: 'none',
    answers: { 200: { content: 'text/html' } },
    handle: () => {
      const { webauthn_enabled, totp_enabled } = deps.settings()
      const look = { passkeys: webauthn_enabled ? 'on' : 'off', totp: totp_enabled ? 'on' : 'off' }
      const key = JSON.stringify(look)
      const page = made.get(key) ?? documentOf(deps, look)
      made.set(key, page)
      return page
    },
  })
}

const documentOf = ({ appName, minPasswordLength }: Deps, look: Record<string, string>): Reply =>
  htmlDocument({
    title: `Your ${appName} account`,
    body: `<main><h1>Your ${escapeHtml(appName)} account</h1><div id="place"></div></main>`,
    data: { ...look, 'password-length': String(minPasswordLength) },
    scripts,
  })
