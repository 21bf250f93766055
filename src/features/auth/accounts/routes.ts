import { emailOf } from '../../../core/contact/email-address.ts'
import { badRequest, unauthorized } from '../../../core/errors.ts'
import { userIdOf, userOf } from '../../../core/identity.ts'
import * as t from '../../../core/json-type.ts'
import { user } from '../../../core/user.ts'
import { json, jsonText, noContent, type Route, route } from '../../../http/route.ts'
import { signedIn, signedInOrPending } from '../answers.ts'
import { deviceOf } from '../sessions/device.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { checkPassword } from '../sign-in/hashing.ts'
import type { Login } from '../sign-in/password.ts'
import type { Accounts } from './accounts.ts'

const email = t.string({ format: 'email' })
const password = t.string({ format: 'password' })
const credentials = t.object({ email, password })
const refreshToken = t.object({ refreshToken: t.string() })
const mailToken = t.object({ token: t.string({ description: 'from the link in the mail, good once' }) })

const session = t.object({
  id: t.uuid(),
  user_agent: t.string(),
  ip_address: t.string(),
  created_at: t.time(),
  last_active_at: t.time(),
  current: t.boolean(),
})

export function accountRoutes(deps: {
  accounts: Accounts
  login: Login
  sessions: Sessions
  minPasswordLength: number
}): Route[] {
  const { accounts, login, sessions, minPasswordLength } = deps
  return [
    route('POST /api/auth/register', {
      summary: 'Sign up with email and password',
      auth: 'none',
      limit: 'register',
      body: credentials,
      answers: { 201: signedIn },
      handle: async (call) => {
        const address = emailOf(call.body.email)
        checkPassword(call.body.password, minPasswordLength)
        return json(201, await accounts.register(address, call.body.password, deviceOf(call)))
      },
    }),
    route('POST /api/auth/login', {
      summary: 'Sign in with email and password',
      auth: 'none',
      limit: 'login',
      body: credentials,
      answers: { 200: signedInOrPending },
      handle: async (call) => json(200, await login(emailOf(call.body.email), call.body.password, deviceOf(call))),
    }),
    route('POST /api/auth/refresh', {
      summary: 'A new access token, and the next refresh token',
      auth: 'none',
      body: refreshToken,
      answers: { 200: signedIn },
      handle: async (call) => json(200, await sessions.refresh(call.body.refreshToken, deviceOf(call))),
    }),
    route('POST /api/auth/logout', {
      summary: 'End the session of a refresh token',
      auth: 'none',
      body: refreshToken,
      answers: { 204: null },
      handle: async ({ body }) => {
        await sessions.logout(body.refreshToken)
        return noContent
      },
    }),
    route('GET /api/auth/me', {
      summary: 'Who is calling',
      auth: 'user',
      access: 'read',
      answers: { 200: user },
      handle: async ({ who }) => {
        const id = userIdOf(who)
        // A client-credentials token is nobody's.
        if (id === null) throw unauthorized('not authenticated')
        return jsonText(200, await accounts.me(id))
      },
    }),
    route('DELETE /api/auth/me', {
      summary: 'Delete the account and all that hangs on it',
      auth: 'user',
      answers: { 204: null },
      handle: async ({ who }) => {
        await accounts.remove(userOf(who).id)
        return noContent
      },
    }),
    route('GET /api/auth/sessions', {
      summary: 'Open sessions, the most recently active first',
      auth: 'user',
      answers: { 200: t.array(session) },
      handle: async ({ who }) => {
        const { id, sessionId } = userOf(who)
        return jsonText(200, await sessions.list(id, sessionId))
      },
    }),
    route('DELETE /api/auth/sessions/{id}', {
      summary: 'End one session',
      auth: 'user',
      params: { id: t.id('session') },
      answers: { 204: null },
      handle: async ({ who, params }) => {
        await sessions.revoke(userOf(who).id, params.id)
        return noContent
      },
    }),
    route('DELETE /api/auth/sessions', {
      summary: 'End all sessions but the one that asks',
      auth: 'user',
      query: { all_except_current: t.string({ description: 'must be `true`' }) },
      answers: { 204: null },
      handle: async ({ who, query }) => {
        if (query['all_except_current'] !== 'true') throw badRequest('all_except_current=true is required')
        const { id, sessionId } = userOf(who)
        await sessions.revokeOthers(id, sessionId)
        return noContent
      },
    }),
    route('POST /api/auth/password-reset', {
      summary: 'Mail a reset link, if the address is known',
      auth: 'none',
      limit: 'password_reset',
      body: t.object({ email }),
      answers: { 204: null },
      handle: async ({ body }) => {
        await accounts.requestReset(emailOf(body.email))
        return noContent
      },
    }),
    route('POST /api/auth/password-reset/confirm', {
      summary: 'Set a new password; every session ends',
      auth: 'none',
      limit: 'password_reset',
      body: t.merged(mailToken, t.object({ password })),
      answers: { 204: null },
      handle: async ({ body }) => {
        checkPassword(body.password, minPasswordLength)
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
      handle: async ({ body }) => {
        await accounts.verify(body.token)
        return noContent
      },
    }),
    route('POST /api/auth/verify/resend', {
      summary: 'Mail the verification link again',
      auth: 'user',
      limit: 'verify_resend',
      bodyKind: 'none',
      answers: { 204: null },
      handle: async ({ who }) => {
        await accounts.resendVerification(userOf(who).id)
        return noContent
      },
    }),
  ]
}
