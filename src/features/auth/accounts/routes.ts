import { badRequest, unauthorized } from '../../../core/errors.ts'
import type { Identity } from '../../../core/identity.ts'
import { userIdOf } from '../../../core/identity.ts'
import { uuidParam } from '../../../core/uuid.ts'
import { object, requiredString } from '../../../http/fields.ts'
import { json, jsonText, noContent, type Route, route } from '../../../http/route.ts'
import { deviceOf } from '../sessions/device.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { Login } from '../sign-in/password.ts'
import type { Accounts } from './accounts.ts'
import { emailField } from './email-address.ts'
import { newPasswordField, passwordField } from './fields.ts'

type UserIdentity = Extract<Identity, { kind: 'user' }>

/** The guard let only users through; this says so to the compiler. */
export function userOf(who: Identity): UserIdentity {
  if (who.kind !== 'user') throw unauthorized('not authenticated')
  return who
}

const refreshTokenField = (body: unknown): string => requiredString(object(body), 'refreshToken')
const tokenField = (body: unknown): string => requiredString(object(body), 'token')

export function accountRoutes(deps: {
  accounts: Accounts
  login: Login
  sessions: Sessions
  minPasswordLength: number
}): Route[] {
  const { accounts, login, sessions, minPasswordLength } = deps
  return [
    route('POST /api/auth/register', {
      auth: 'none',
      limit: 'register',
      body: (input) => {
        const fields = object(input)
        return { email: emailField(fields), password: newPasswordField(fields, minPasswordLength) }
      },
      handle: async (call) => json(201, await accounts.register(call.body.email, call.body.password, deviceOf(call))),
    }),
    route('POST /api/auth/login', {
      auth: 'none',
      limit: 'login',
      body: (input) => {
        const fields = object(input)
        return { email: emailField(fields), password: passwordField(fields) }
      },
      handle: async (call) => json(200, await login(call.body.email, call.body.password, deviceOf(call))),
    }),
    route('POST /api/auth/refresh', {
      auth: 'none',
      body: refreshTokenField,
      handle: async (call) => json(200, await sessions.refresh(call.body, deviceOf(call))),
    }),
    route('POST /api/auth/logout', {
      auth: 'none',
      body: refreshTokenField,
      handle: async (call) => {
        await sessions.logout(call.body)
        return noContent
      },
    }),
    route('GET /api/auth/me', {
      auth: 'user',
      access: 'read',
      handle: async ({ who }) => {
        const id = userIdOf(who)
        // A client-credentials token is nobody's.
        if (id === null) throw unauthorized('not authenticated')
        return jsonText(200, await accounts.me(id))
      },
    }),
    route('DELETE /api/auth/me', {
      auth: 'user',
      handle: async ({ who }) => {
        await accounts.remove(userOf(who).id)
        return noContent
      },
    }),
    route('GET /api/auth/sessions', {
      auth: 'user',
      handle: async ({ who }) => {
        const user = userOf(who)
        return jsonText(200, await sessions.list(user.id, user.sessionId))
      },
    }),
    route('DELETE /api/auth/sessions/{id}', {
      auth: 'user',
      handle: async ({ who, params }) => {
        await sessions.revoke(userOf(who).id, uuidParam(params['id'], 'session'))
        return noContent
      },
    }),
    route('DELETE /api/auth/sessions', {
      auth: 'user',
      handle: async ({ who, query }) => {
        if (query['all_except_current'] !== 'true') throw badRequest('all_except_current=true is required')
        const user = userOf(who)
        await sessions.revokeOthers(user.id, user.sessionId)
        return noContent
      },
    }),
    route('POST /api/auth/password-reset', {
      auth: 'none',
      limit: 'password_reset',
      body: (input) => emailField(object(input)),
      handle: async ({ body }) => {
        await accounts.requestReset(body)
        return noContent
      },
    }),
    route('POST /api/auth/password-reset/confirm', {
      auth: 'none',
      limit: 'password_reset',
      body: (input) => ({ token: tokenField(input), password: newPasswordField(object(input), minPasswordLength) }),
      handle: async ({ body }) => {
        await accounts.confirmReset(body.token, body.password)
        return noContent
      },
    }),
    route('POST /api/auth/verify', {
      auth: 'none',
      limit: 'verify_resend',
      body: tokenField,
      handle: async ({ body }) => {
        await accounts.verify(body)
        return noContent
      },
    }),
    route('POST /api/auth/verify/resend', {
      auth: 'user',
      limit: 'verify_resend',
      bodyKind: 'none',
      handle: async ({ who }) => {
        await accounts.resendVerification(userOf(who).id)
        return noContent
      },
    }),
  ]
}
