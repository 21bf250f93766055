import { emailOf } from '../../core/contact/email-address.ts'
import { AppError, unauthorized } from '../../core/errors.ts'
import { userIdOf, userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { user } from '../../core/user.ts'
import { json, jsonText, noContent, noContentAfter, type Route, route } from '../../http/route.ts'
import type { IdentityDeps } from '../../identity/deps.ts'
import { metadataText } from '../../identity/metadata.ts'
import { signedIn, withCaptcha } from '../../identity/responses.ts'
import { deviceOf } from '../../identity/session.ts'
import { accountPageRoute } from './account-page/page.ts'
import { type AccountDeps, type Accounts, accountsOf } from './accounts.ts'
import { pageRoutes } from './pages.ts'

const email = t.string({ format: 'email' })
const password = t.string({ format: 'password' })
const credentials = t.object({ email, password })
const mailToken = t.object({ token: t.string({ description: 'from the link in the mail, good once' }) })

type Deps = AccountDeps &
  Pick<IdentityDeps, 'appName' | 'settings' | 'requireGoodPassword' | 'requireCaptcha'> & {
    config: { oauth_redirect_url: string; min_password_length: number; oauth_provider: { enabled: boolean } }
    /** Whether agents may work as users. */
    hasAgents: boolean
  }

/** Registration, verification and password reset, and the account page. */
export function createAccounts(deps: Deps): { routes: Route[] } {
  const { appName, settings, config, hasAgents } = deps
  const minPasswordLength = config.min_password_length
  return {
    routes: [
      ...accountRoutes(accountsOf(deps), deps),
      ...pageRoutes(config),
      accountPageRoute({ appName, settings, minPasswordLength, hasGrants: config.oauth_provider.enabled, hasAgents }),
    ],
  }
}

const accountRoutes = (
  accounts: Accounts,
  { requireGoodPassword, requireCaptcha }: Pick<IdentityDeps, 'requireGoodPassword' | 'requireCaptcha'>,
): Route[] => [
  route('POST /api/auth/register', {
    summary: 'Sign up with email and password',
    auth: 'none',
    limit: 'register',
    body: t.merged(credentials, withCaptcha),
    answers: { 201: signedIn },
    handle: async (call) => {
      const address = emailOf(call.body.email)
      await requireCaptcha?.(call.body.captcha_token, call.ip)
      await requireGoodPassword(call.body.password)
      return json(201, await accounts.register(address, call.body.password, deviceOf(call)))
    },
  }),
  route('GET /api/auth/me', {
    summary: 'Who is calling',
    auth: 'user',
    access: 'read',
    impersonable: true,
    answers: { 200: user },
    handle: async ({ who }) => {
      const id = userIdOf(who)
      // A client-credentials token belongs to no user.
      if (id === null) throw unauthorized('not authenticated')
      return jsonText(200, await accounts.me(id))
    },
  }),
  route('PATCH /api/auth/me', {
    summary: 'Change the address, once its link is opened, and the own metadata',
    auth: 'user',
    limit: 'api',
    body: t.object({
      email: t.optional(email),
      metadata: t.optional(t.record(t.any(), { description: 'at most 16 KB; replaces what was there' })),
    }),
    answers: { 200: user },
    handle: async ({ who, body }) => {
      const caller = userOf(who)
      if (body.email !== undefined && caller.isAnonymous)
        throw new AppError('account_is_anonymous', 'link your account before changing its address')
      const change = {
        ...(body.email !== undefined && { email: emailOf(body.email) }),
        ...(body.metadata !== undefined && { metadata: metadataText(body.metadata) }),
      }
      return jsonText(200, await accounts.update(caller, change))
    },
  }),
  route('POST /api/auth/email-change/confirm', {
    summary: 'Take the new address, with the token mailed to it',
    auth: 'none',
    limit: 'verify_resend',
    body: mailToken,
    answers: { 204: null },
    handle: ({ body }) => noContentAfter(accounts.confirmEmailChange(body.token)),
  }),
  route('POST /api/auth/email-change/revert', {
    summary: 'Take the former address back, with the token mailed to it; every session ends',
    auth: 'none',
    limit: 'verify_resend',
    body: mailToken,
    answers: { 204: null },
    handle: ({ body }) => noContentAfter(accounts.revertEmailChange(body.token)),
  }),
  route('DELETE /api/auth/me', {
    summary: 'Delete the account and all that hangs on it',
    auth: 'user',
    answers: { 204: null },
    handle: ({ who }) => noContentAfter(accounts.remove(userOf(who))),
  }),
  route('POST /api/auth/password-reset', {
    summary: 'Mail a reset link, if the address is known',
    auth: 'none',
    limit: 'password_reset',
    body: t.merged(t.object({ email }), withCaptcha),
    answers: { 204: null },
    handle: async ({ body, ip }) => {
      const address = emailOf(body.email)
      await requireCaptcha?.(body.captcha_token, ip)
      return noContentAfter(accounts.requestReset(address))
    },
  }),
  route('POST /api/auth/password-reset/confirm', {
    summary: 'Set a new password; every session ends',
    auth: 'none',
    limit: 'password_reset',
    body: t.merged(mailToken, t.object({ password })),
    answers: { 204: null },
    handle: async ({ body }) => {
      await requireGoodPassword(body.password)
      await accounts.confirmReset(body.token, body.password)
      return noContent
    },
  }),
  route('POST /api/auth/verify', {
    summary: 'Prove an address with the token mailed to it',
    auth: 'none',
    limit: 'verify_resend',
    body: mailToken,
    answers: { 204: null },
    handle: ({ body }) => noContentAfter(accounts.verify(body.token)),
  }),
  route('POST /api/auth/verify/resend', {
    summary: 'Mail the verification link again',
    auth: 'user',
    limit: 'verify_resend',
    bodyKind: 'none',
    answers: { 204: null },
    handle: ({ who }) => noContentAfter(accounts.resendVerification(userOf(who).id)),
  }),
]
