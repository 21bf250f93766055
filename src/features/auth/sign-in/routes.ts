import { notFound } from '../../../core/errors.ts'
import { normalisePhone } from '../../../core/phone.ts'
import { object, requiredString } from '../../../http/fields.ts'
import { json, type Reply, type Route, route } from '../../../http/route.ts'
import type { Accounts } from '../accounts/accounts.ts'
import { emailField } from '../accounts/email-address.ts'
import { newPasswordField } from '../accounts/fields.ts'
import { userOf } from '../accounts/routes.ts'
import type { ExternalSignIn } from '../providers/external-sign-in.ts'
import type { Providers } from '../providers/registry.ts'
import { deviceOf } from '../sessions/device.ts'
import type { AuthResponse } from '../sessions/sessions.ts'
import type { AuthSettings } from '../settings.ts'
import { type Linking, notAnonymous } from './linking.ts'
import type { MagicLinks } from './magic-link.ts'
import type { SmsSignIn } from './sms.ts'

/** Ways in besides a password, most of them behind a switch. */
export function signInRoutes(deps: {
  accounts: Accounts
  magicLinks: MagicLinks
  linking: Linking
  sms: SmsSignIn
  external: ExternalSignIn
  providers: Providers
  settings: () => AuthSettings
  minPasswordLength: number
}): Route[] {
  const { accounts, magicLinks, linking, sms, external, providers, minPasswordLength } = deps
  const require = (name: keyof AuthSettings, feature: string): void => {
    if (!deps.settings()[name]) throw notFound(`${feature} is not enabled`)
  }
  const requireMagicLinks = () => require('magic_link_enabled', 'magic link authentication')
  const requireSms = () => require('sms_enabled', 'SMS authentication')

  return [
    route('POST /api/auth/magic-link', {
      auth: 'none',
      limit: 'magic_link',
      handle: async ({ body }) => {
        requireMagicLinks()
        await magicLinks.request(emailField(object(body)))
        return json(200, { message: 'if valid, a login link has been sent' })
      },
    }),
    route('POST /api/auth/magic-link/confirm', {
      auth: 'optional',
      limit: 'magic_link',
      handle: async (call) => {
        requireMagicLinks()
        const token = requiredString(object(call.body), 'token')
        const anonymousId = call.who.kind === 'user' && call.who.isAnonymous ? call.who.id : undefined
        return json(200, await magicLinks.confirm(token, anonymousId, deviceOf(call)))
      },
    }),
    route('POST /api/auth/anonymous', {
      auth: 'none',
      limit: 'anonymous',
      bodyKind: 'none',
      handle: async (call) => {
        require('anonymous_auth_enabled', 'anonymous authentication')
        return json(201, await accounts.registerAnonymous(deviceOf(call)))
      },
    }),
    route('POST /api/auth/link/email', {
      auth: 'user',
      handle: async (call) => {
        const fields = object(call.body)
        const [email, password] = [emailField(fields), newPasswordField(fields, minPasswordLength)]
        const user = userOf(call.who)
        if (!user.isAnonymous) throw notAnonymous()
        return json(200, await linking.email(user.id, email, password, deviceOf(call)))
      },
    }),
    route('POST /api/auth/link/oauth', {
      auth: 'user',
      handle: async (call) => {
        const fields = object(call.body)
        const [name, accessToken] = [requiredString(fields, 'provider'), requiredString(fields, 'access_token')]
        const provider = providers(name)
        const user = userOf(call.who)
        if (!user.isAnonymous) throw notAnonymous()
        const profile = await provider.profileOfToken(accessToken)
        return json(200, await linking.provider(user.id, profile, deviceOf(call)))
      },
    }),
    route('POST /api/auth/sms', {
      auth: 'none',
      limit: 'sms',
      handle: async ({ body }) => {
        requireSms()
        await sms.request(normalisePhone(requiredString(object(body), 'phone')))
        return json(200, { message: 'if valid, a verification code has been sent' })
      },
    }),
    route('POST /api/auth/sms/confirm', {
      auth: 'none',
      limit: 'sms',
      handle: async (call) => {
        requireSms()
        const fields = object(call.body)
        const [phone, code] = [requiredString(fields, 'phone'), requiredString(fields, 'code')]
        return json(200, await sms.confirm(normalisePhone(phone), code.trim(), deviceOf(call)))
      },
    }),
    route('GET /api/auth/oauth/{provider}', {
      auth: 'none',
      handle: async ({ params, query }) =>
        redirect(await external.start(params['provider'] ?? '', query['redirect_to'])),
    }),
    route('GET /api/auth/oauth/{provider}/callback', {
      auth: 'none',
      handle: async (call) => {
        const { returnTo, response } = await external.finish(call.params['provider'] ?? '', call.query, deviceOf(call))
        return returnTo === '' ? json(200, response) : redirect(`${returnTo.split('#')[0]}#${fragmentOf(response)}`)
      },
    }),
  ]
}

/** 302 and no referrer: the address of the next page carries tokens or a state. */
const redirect = (location: string): Reply => ({
  status: 302,
  headers: { Location: location, 'Referrer-Policy': 'no-referrer' },
})

const fragmentOf = (response: AuthResponse): URLSearchParams =>
  'token' in response
    ? new URLSearchParams({ token: response.token, refreshToken: response.refreshToken })
    : new URLSearchParams({ mfa_pending: 'true', mfa_token: response.mfa_token })
