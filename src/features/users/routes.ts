import { emailOf } from '../../core/contact/email-address.ts'
import { SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { pageQuery, parsePage } from '../../core/page.ts'
import { user } from '../../core/user.ts'
import { authDisabled } from '../../http/guard.ts'
import { jsonText, noContentAfter, type Route, requireEnabled, route } from '../../http/route.ts'
import { linkedIdentity } from '../../identity/linked-identities.ts'
import { metadataText } from '../../identity/metadata.ts'
import type { RequireGoodPassword } from '../../identity/password-rules.ts'
import { listUsers } from './sql.ts'
import { createUserAdministration, type UserDeps } from './users.ts'

const metadata = {
  metadata: t.optional(t.record(t.any(), { description: 'at most 16 KB; replaces what was there' })),
  app_metadata: t.optional(t.record(t.any(), { description: 'at most 16 KB; replaces what was there' })),
}
const email = t.string({ format: 'email' })
const password = t.string({ format: 'password' })
const one = { id: t.id('user') }
const session = t.object({
  id: t.uuid(),
  aal: t.string(),
  user_agent: t.string(),
  ip_address: t.string(),
  created_at: t.time(),
  last_active_at: t.time(),
})
const factor = t.object({ id: t.string(), method: t.string(), name: t.string(), created_at: t.time() })
const membership = t.object({ id: t.uuid(), name: t.string(), role: t.string(), created_at: t.time() })

type Metadata = { metadata?: Record<string, unknown>; app_metadata?: Record<string, unknown> }
const metadataOf = ({ metadata, app_metadata }: Metadata) => ({
  ...(metadata !== undefined && { metadata: metadataText(metadata) }),
  ...(app_metadata !== undefined && { appMetadata: metadataText(app_metadata) }),
})

/** Users as administrators see and change them. */
export function createUsers(deps: UserDeps & { authEnabled: boolean; requireGoodPassword: RequireGoodPassword }): {
  routes: Route[]
} {
  const users = createUserAdministration(deps)
  const admin = { auth: 'admin', requires: requireEnabled(deps.authEnabled, authDisabled) } as const
  const routes = [
    route('GET /api/admin/users', {
      summary: 'Users, newest first',
      leastRole: 'viewer',
      ...admin,
      query: { ...pageQuery, search: t.string({ description: 'part of the address, in any case' }) },
      answers: { 200: t.pageOf(user) },
      handle: async ({ query }) => {
        const list = listUsers(parsePage(query), query['search'] ?? '')
        return jsonText(200, (await deps.db.fly(SYSTEM, list)) ?? '')
      },
    }),
    route('POST /api/admin/users', {
      summary: 'Make an account, with or without a password',
      leastRole: 'operator',
      ...admin,
      audit: 'user.create',
      body: t.object({ email, password: t.optional(password), email_verified: t.optional(t.boolean()), ...metadata }),
      answers: { 201: user },
      handle: async (call) => {
        const { body } = call
        if (body.password !== undefined) await deps.requireGoodPassword(body.password)
        const account = accountOf({ ...body, email: emailOf(body.email) })
        return jsonText(201, await users.create({ ...metadataOf(body), ...account }, false, call))
      },
    }),
    route('POST /api/admin/users/invite', {
      summary: 'Make an account and mail a link with which its owner chooses a password',
      leastRole: 'operator',
      ...admin,
      audit: 'user.invite',
      body: t.object({ email, ...metadata }),
      answers: { 201: user },
      handle: async (call) => {
        const { body } = call
        return jsonText(201, await users.create({ ...metadataOf(body), email: emailOf(body.email) }, true, call))
      },
    }),
    route('GET /api/admin/users/{id}', {
      summary: 'A user',
      leastRole: 'viewer',
      ...admin,
      params: one,
      answers: { 200: user },
      handle: async ({ params }) => jsonText(200, await users.get(params.id)),
    }),
    route('PATCH /api/admin/users/{id}', {
      summary: 'Change address, verification and metadata of a user',
      leastRole: 'operator',
      ...admin,
      audit: 'user.update',
      params: one,
      body: t.object({ email: t.optional(email), email_verified: t.optional(t.boolean()), ...metadata }),
      answers: { 200: user },
      handle: async (call) => {
        const { body, params } = call
        const given = {
          ...metadataOf(body),
          ...(body.email !== undefined && { email: emailOf(body.email) }),
          ...(body.email_verified !== undefined && { email_verified: body.email_verified }),
        }
        return jsonText(200, await users.update(params.id, given, call))
      },
    }),
    route('DELETE /api/admin/users/{id}', {
      summary: 'Delete a user and all that hangs on it',
      leastRole: 'operator',
      ...admin,
      audit: 'user.delete',
      params: one,
      answers: { 204: null },
      handle: (call) => noContentAfter(users.remove(call.params.id, call)),
    }),
    route('POST /api/admin/users/{id}/disable', {
      summary: 'End all access of a user until it is enabled',
      leastRole: 'operator',
      ...admin,
      audit: 'user.disable',
      params: one,
      bodyKind: 'none',
      answers: { 204: null },
      handle: (call) => noContentAfter(users.disable(call.params.id, call)),
    }),
    route('POST /api/admin/users/{id}/enable', {
      summary: 'Let a disabled user sign in again',
      leastRole: 'operator',
      ...admin,
      audit: 'user.enable',
      params: one,
      bodyKind: 'none',
      answers: { 204: null },
      handle: (call) => noContentAfter(users.enable(call.params.id, call)),
    }),
    route('POST /api/admin/users/{id}/password', {
      summary: 'Set the password of a user; every session ends',
      leastRole: 'operator',
      ...admin,
      audit: 'user.set_password',
      params: one,
      body: t.object({ password }),
      answers: { 204: null },
      handle: async (call) => {
        await deps.requireGoodPassword(call.body.password)
        return noContentAfter(users.setPassword(call.params.id, call.body.password, call))
      },
    }),
    route('GET /api/admin/users/{id}/sessions', {
      summary: 'Open sessions of a user',
      leastRole: 'viewer',
      ...admin,
      params: one,
      answers: { 200: t.array(session) },
      handle: async ({ params }) => jsonText(200, await users.sessions(params.id)),
    }),
    route('DELETE /api/admin/users/{id}/sessions', {
      summary: 'End all sessions of a user',
      leastRole: 'operator',
      ...admin,
      audit: 'user.end_sessions',
      params: one,
      answers: { 204: null },
      handle: (call) => noContentAfter(users.endSessions(call.params.id, call)),
    }),
    route('GET /api/admin/users/{id}/factors', {
      summary: 'Second factors and passkeys of a user',
      leastRole: 'viewer',
      ...admin,
      params: one,
      answers: { 200: t.array(factor) },
      handle: async ({ params }) => jsonText(200, await users.factors(params.id)),
    }),
    route('DELETE /api/admin/users/{id}/factors/{factor}', {
      summary: 'Remove a factor that a user has lost; every session ends',
      leastRole: 'operator',
      ...admin,
      audit: 'user.remove_factor',
      params: { ...one, factor: t.string() },
      answers: { 204: null },
      handle: (call) => noContentAfter(users.removeFactor(call.params.id, call.params.factor, call)),
    }),
    route('GET /api/admin/users/{id}/providers', {
      summary: 'Accounts elsewhere by which a user signs in',
      leastRole: 'viewer',
      ...admin,
      params: one,
      answers: { 200: t.array(linkedIdentity) },
      handle: async ({ params }) => jsonText(200, await users.providers(params.id)),
    }),
    route('DELETE /api/admin/users/{id}/providers/{identity}', {
      summary: 'Remove an account elsewhere by which a user signs in; every session ends',
      leastRole: 'operator',
      ...admin,
      audit: 'user.remove_provider',
      params: { ...one, identity: t.string() },
      answers: { 204: null },
      handle: (call) => noContentAfter(users.removeProvider(call.params.id, call.params.identity, call)),
    }),
    route('GET /api/admin/users/{id}/organizations', {
      summary: 'Organizations of a user, with the role in each',
      leastRole: 'viewer',
      ...admin,
      params: one,
      answers: { 200: t.array(membership) },
      handle: async ({ params }) => jsonText(200, await users.organizations(params.id)),
    }),
    route('GET /api/admin/users/{id}/export', {
      summary: 'All data of a person as a file',
      freshFactor: true,
      ...admin,
      audit: 'user.export',
      params: one,
      answers: { 200: t.row },
      handle: async (call) => ({
        ...jsonText(200, await users.export(call.params.id, call)),
        headers: { 'content-disposition': `attachment; filename="user-${call.params.id}.json"` },
      }),
    }),
  ]
  return { routes }
}

type Account = { email: string; password?: string; email_verified?: boolean }
const accountOf = ({ email, password, email_verified }: Account): Account => ({
  email,
  ...(password !== undefined && { password }),
  ...(email_verified !== undefined && { email_verified }),
})
