import { emailOf } from '../../../core/contact/email-address.ts'
import { normalisePhone } from '../../../core/contact/phone.ts'
import { notFound } from '../../../core/errors.ts'
import { userOf } from '../../../core/identity.ts'
import * as t from '../../../core/json-type.ts'
import { json, type Reply, type Route, route } from '../../../http/route.ts'
import type { Accounts } from '../accounts/accounts.ts'
import { message, signedIn, signedInOrPending } from '../answers.ts'
import type { ExternalSignIn } from '../providers/external-sign-in.ts'
import type { Providers } from '../providers/registry.ts'
import { deviceOf } from '../sessions/device.ts'
import type { AuthResponse } from '../sessions/sessions.ts'
import type { AuthSettings } from '../settings.ts'
import { checkPassword } from './hashing.ts'
import { type Linking, notAnonymous } from './linking.ts'
import type { MagicLinks } from './magic-link.ts'
import type { SmsSignIn } from './sms.ts'

const email = t.string({ format: 'email' })
const phone = t.string({ description: 'E.164; spaces, dots, hyphens and parentheses are ignored' })

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
    if (!deps.settings()[name]) throw notFound(`${feature} is not enabled`, 'feature_disabled')
  }
  const requireMagicLinks = () => require('magic_link_enabled', 'magic link authentication')
  const requireSms = () => require('sms_enabled', 'SMS authentication')

  return [
    route('POST /api/auth/magic-link', {
      summary: 'Mail a link that signs in',
      auth: 'none',
      limit: 'magic_link',
      requires: requireMagicLinks,
      body: t.object({ email }),
      answers: { 200: message },
      handle: async ({ body }) => {
        await magicLinks.request(emailOf(body.email))
        return json(200, { message: 'if valid, a login link has been sent' })
      },
    }),
    route('POST /api/auth/magic-link/confirm', {
      summary: 'Sign in with the token of a mailed link; an anonymous caller is upgraded',
      auth: 'lenient',
      limit: 'magic_link',
      requires: requireMagicLinks,
      body: t.object({ token: t.string() }),
      answers: { 200: signedInOrPending },
      handle: async (call) => {
        const anonymousId = call.who.kind === 'user' && call.who.isAnonymous ? call.who.id : undefined
        return json(200, await magicLinks.confirm(call.body.token, anonymousId, deviceOf(call)))
      },
    }),
    route('POST /api/auth/anonymous', {
      summary: 'An account without credentials, to be linked later',
      auth: 'none',
      limit: 'anonymous',
      bodyKind: 'none',
      requires: () => require('anonymous_auth_enabled', 'anonymous authentication'),
      answers: { 201: signedIn },
      handle: async (call) => json(201, await accounts.registerAnonymous(deviceOf(call))),
    }),
    route('POST /api/auth/link/email', {
      summary: 'Give an anonymous account an address and a password',
      auth: 'user',
      limit: 'register',
      body: t.object({ email, password: t.string({ format: 'password' }) }),
      answers: { 200: signedIn },
      handle: async (call) => {
        const address = emailOf(call.body.email)
        checkPassword(call.body.password, minPasswordLength)
        const user = userOf(call.who)
        if (!user.isAnonymous) throw notAnonymous()
        return json(200, await linking.email(user.id, address, call.body.password, deviceOf(call)))
      },
    }),
    route('POST /api/auth/link/oauth', {
      summary: 'Give an anonymous account an identity at an external provider',
      auth: 'user',
      body: t.object({ provider: t.string(), access_token: t.string({ description: "the provider's" }) }),
      answers: { 200: signedIn },
      handle: async (call) => {
        const provider = providers(call.body.provider)
        const user = userOf(call.who)
        if (!user.isAnonymous) throw notAnonymous()
        const profile = await provider.profileOfToken(call.body.access_token)
        return json(200, await linking.provider(user.id, profile, deviceOf(call)))
      },
    }),
    route('POST /api/auth/sms', {
      summary: 'Send a code that signs in',
      auth: 'none',
      limit: 'sms',
      requires: requireSms,
      body: t.object({ phone }),
      answers: { 200: message },
      handle: async ({ body }) => {
        await sms.request(normalisePhone(body.phone))
        return json(200, { message: 'if valid, a verification code has been sent' })
      },
    }),
    route('POST /api/auth/sms/confirm', {
      summary: 'Sign in with the code',
      auth: 'none',
      limit: 'sms',
      requires: requireSms,
      body: t.object({ phone, code: t.string() }),
      answers: { 200: signedInOrPending },
      handle: async (call) =>
        json(200, await sms.confirm(normalisePhone(call.body.phone), call.body.code.trim(), deviceOf(call))),
    }),
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
}

/** 302 and no referrer: the address of the next page carries tokens or a state. */
const redirect = (location: string, headers: Record<string, string> = {}): Reply => ({
  status: 302,
  headers: { Location: location, 'Referrer-Policy': 'no-referrer', ...headers },
})

const fragmentOf = (response: AuthResponse): URLSearchParams =>
  'token' in response
    ? new URLSearchParams({ token: response.token, refreshToken: response.refreshToken })
    : new URLSearchParams({ mfa_pending: 'true', mfa_token: response.mfa_token })
