import { escapeHtml, htmlDocument } from '../../../http/html/document.ts'
import { signInScripts } from '../../../http/html/sign-in-script.ts'
import { type Route, route } from '../../../http/route.ts'
import type { AuthSettings } from '../settings.ts'
import { accountScript } from './account-script.ts'
import { factorsScript } from './factors-script.ts'
import { passkeysScript } from './passkeys-script.ts'
import { qrScript } from './qr-script.ts'

const scripts = [...signInScripts, qrScript, passkeysScript, factorsScript, accountScript]

/** Where people look after their own account, with nothing but the public API. */
export const accountPageRoute = (deps: {
  appName: string
  settings: () => AuthSettings
  minPasswordLength: number
}): Route =>
  route('GET /account', {
    summary: 'Page where people look after their account',
    auth: 'none',
    answers: { 200: { content: 'text/html' } },
    handle: () => {
      const { webauthn_enabled, totp_enabled } = deps.settings()
      return htmlDocument({
        title: `Your ${deps.appName} account`,
        body: `<main><h1>Your ${escapeHtml(deps.appName)} account</h1><div id="place"></div></main>`,
        data: {
          passkeys: webauthn_enabled ? 'on' : 'off',
          totp: totp_enabled ? 'on' : 'off',
          'password-length': String(deps.minPasswordLength),
        },
        scripts,
      })
    },
  })
