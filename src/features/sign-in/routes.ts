import { emailOf } from '../../core/contact/email-address.ts'
import { normalisePhone } from '../../core/contact/phone.ts'
import { hasStatus } from '../../core/errors.ts'
import { userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { json, type Route, route } from '../../http/route.ts'
import { message, signedIn, signedInOrPending, withCaptcha } from '../../identity/responses.ts'
import { deviceOf } from '../../identity/session.ts'
import { requireSetting } from '../../identity/settings.ts'
import { typedCode } from '../../identity/typed-code.ts'
import { createAnonymousAccounts, notAnonymous } from './anonymous.ts'
import type { SignInDeps } from './deps.ts'
import { createMagicLinks } from './magic-link.ts'
import { createLogin, createPasswordCheck } from './password.ts'
import { createPasswordChange, passwordChangeRoute } from './password-change.ts'
import { createExternalSignIn } from './providers/external-sign-in.ts'
import { createProviders } from './providers/registry.ts'
import { providerRoutes } from './providers/routes.ts'
import { createSmsSignIn } from './sms.ts'

const email = t.string({ format: 'email' })
const phone = t.string({ description: 'E.164; spaces, dots, hyphens and parentheses are ignored' })
const credentials = t.object({ email, password: t.string({ format: 'password' }) })

/** First factors: password, mailed link, SMS code, external provider, and anonymous accounts. */
export function createSignIn(deps: SignInDeps): { routes: Route[] } {
  const { settings, config, requireGoodPassword, requireCaptcha } = deps
  const checkPassword = createPasswordCheck(deps)
  const login = createLogin(deps, checkPassword)
  const changePassword = createPasswordChange(deps, checkPassword)
  const magicLinks = createMagicLinks(deps)
  const anonymous = createAnonymousAccounts(deps)
  const sms = createSmsSignIn(deps)
  const providers = createProviders({ outgoing: deps.outgoing, config: config.oauth })
  const external = createExternalSignIn({ ...deps, providers })
  const requireMagicLinks = requireSetting(settings, 'magic_link_enabled', 'magic link authentication')
  const requireSms = requireSetting(settings, 'sms_enabled', 'SMS authentication')

  const routes = [
    route('POST /api/auth/login', {
      summary: 'Sign in with email and password',
      auth: 'none',
      limit: 'login',
      body: t.merged(credentials, withCaptcha),
      answers: { 200: signedInOrPending },
      handle: async (call) => {
        const { password, captcha_token } = call.body
        return json(200, await login(emailOf(call.body.email), password, deviceOf(call), captcha_token))
      },
    }),
    passwordChangeRoute({ changePassword, requireGoodPassword }),
    route('POST /api/auth/magic-link', {
      summary: 'Mail a link that signs in',
      auth: 'none',
      limit: 'magic_link',
      requires: requireMagicLinks,
      body: t.merged(t.object({ email }), withCaptcha),
      answers: { 200: message },
      handle: async ({ body, ip }) => {
        await requireCaptcha?.(body.captcha_token, ip)
        await magicLinks.request(emailOf(body.email))
        return json(200, { message: 'if valid, a login link has been sent' })
      },
    }),
    route('POST /api/auth/magic-link/confirm', {
      summary: 'Sign in with the token of a mailed link; an anonymous caller is upgraded',
      auth: 'anonymous-user',
      limit: 'magic_link',
      requires: requireMagicLinks,
      body: t.object({ token: t.string() }),
      answers: { 200: signedInOrPending },
      handle: async (call) => {
        const anonymousId = call.who.kind === 'user' ? call.who.id : undefined
        const confirmed = magicLinks.confirm(call.body.token, anonymousId, deviceOf(call)).catch((error: unknown) => {
          // A good link signs in whatever stale token a client attaches; without one the bearer is what is wrong first.
          throw (hasStatus(error, 400) && call.badBearer) || error
        })
        return json(200, await confirmed)
      },
    }),
    route('POST /api/auth/anonymous', {
      summary: 'An account without credentials, to be linked later',
      auth: 'none',
      limit: 'anonymous',
      bodyKind: 'none',
      requires: requireSetting(settings, 'anonymous_auth_enabled', 'anonymous authentication'),
      answers: { 201: signedIn },
      handle: async (call) => json(201, await anonymous.register(deviceOf(call))),
    }),
    route('POST /api/auth/link/email', {
      summary: 'Give an anonymous account an address and a password',
      auth: 'user',
      limit: 'link',
      body: credentials,
      answers: { 200: signedIn },
      handle: async (call) => {
        const address = emailOf(call.body.email)
        await requireGoodPassword(call.body.password)
        const user = userOf(call.who)
        if (!user.isAnonymous) throw notAnonymous()
        return json(200, await anonymous.linkEmail(user.id, address, call.body.password, deviceOf(call)))
      },
    }),
    route('POST /api/auth/link/oauth', {
      summary: 'Give an anonymous account an identity at an external provider',
      auth: 'user',
      limit: 'link',
      body: t.object({ provider: t.string(), access_token: t.string({ description: "the provider's" }) }),
      answers: { 200: signedIn },
      handle: async (call) => {
        const provider = providers(call.body.provider)
        const user = userOf(call.who)
        if (!user.isAnonymous) throw notAnonymous()
        const profile = await provider.profileOfToken(call.body.access_token)
        return json(200, await anonymous.linkProvider(user.id, profile, deviceOf(call)))
      },
    }),
    route('POST /api/auth/sms', {
      summary: 'Send a code that signs in',
      auth: 'none',
      limit: 'sms',
      requires: requireSms,
      body: t.merged(t.object({ phone }), withCaptcha),
      answers: { 200: message },
      handle: async ({ body, ip }) => {
        await requireCaptcha?.(body.captcha_token, ip)
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
        json(200, await sms.confirm(normalisePhone(call.body.phone), typedCode(call.body.code), deviceOf(call))),
    }),
    ...providerRoutes(external),
  ]
  return { routes }
}
