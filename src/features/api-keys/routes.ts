import type { AuditSource } from '../../core/audit-entry.ts'
import { AppError, badRequest } from '../../core/errors.ts'
import { type Identity, userOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { pageQuery, parsePage } from '../../core/page.ts'
import { areFewTables, FEW_TABLES, parseScope, scopeText } from '../../core/scope.ts'
import type { Db } from '../../db/db.ts'
import { readBody } from '../../http/contract.ts'
import { json, noContent, type Reply, type Route, route } from '../../http/route.ts'
import { createKeys, type KeyRights } from './keys.ts'
import { createLastUsed } from './last-used.ts'

const MAX_NAME = 255
const SCOPE = '*, readonly or readwrite, and besides it storage:read, storage:write'

const apiKey = t.object({
  id: t.uuid(),
  userId: t.uuid(),
  name: t.string(),
  keyPrefix: t.string({ description: 'the first characters of the key' }),
  scope: t.string({ description: SCOPE }),
  allowedTables: t.array(t.string(), { description: 'empty = all' }),
  appId: t.nullable(t.uuid()),
  orgId: t.nullable(t.uuid({ description: 'the organization that the key acts for' })),
  lastUsedAt: t.nullable(t.time()),
  expiresAt: t.nullable(t.time()),
  createdAt: t.time(),
  revokedAt: t.nullable(t.time()),
})
const madeKey = t.object({ key: t.string({ description: 'shown once' }), apiKey })

const rights = {
  name: t.string({ description: `at most ${MAX_NAME} characters` }),
  scope: t.optional(t.string({ default: '*', description: SCOPE })),
  allowedTables: t.optional(t.array(t.string(), { description: `empty = all; ${FEW_TABLES}` })),
  orgId: t.optional(t.uuid({ description: 'an organization of the user, for which the key acts' })),
}
const ownInput = t.object({ ...rights, appId: t.optional(t.any({ description: 'not allowed here' })) })
const adminInput = t.object({ userId: t.uuid(), ...rights, appId: t.optional(t.uuid()) })

export type ApiKeys = {
  routes: Route[]
  /** By the SHA-256 of the presented key, in hex. */
  resolveApiKey(hash: string): Promise<(Identity & { kind: 'key' }) | undefined>
  /** Without noting that it was used. */
  keyById(id: string): Promise<(Identity & { kind: 'key' }) | undefined>
  stop(): Promise<void>
}

export function createApiKeys(deps: {
  db: Db
  /** Drops the key from this process's cache at once; other processes read the revocation from the database. */
  onRevoked: (keyId: string) => void
}): ApiKeys {
  const { db } = deps
  const keys = createKeys(db)
  const lastUsed = createLastUsed(db)

  const revoke = async (id: string, owner: string | null, act?: AuditSource): Promise<Reply> => {
    await keys.revoke(id, owner, act)
    deps.onRevoked(id)
    return noContent
  }

  const routes = [
    route('GET /api/auth/api-keys', {
      summary: 'Own API keys, newest first',
      auth: 'user',
      answers: { 200: t.array(apiKey) },
      handle: async ({ who }) => json(200, await keys.ofUser(userOf(who).id)),
    }),
    route('POST /api/auth/api-keys', {
      summary: 'Make an API key',
      auth: 'user',
      // Keys pass the guard so that the handler can refuse them with a specific message.
      access: 'read',
      accepts: ownInput,
      answers: { 201: madeKey },
      handle: async ({ who, body }) => {
        if (who.kind === 'key') throw new AppError('insufficient_scope', 'API keys cannot create API keys')
        const input = readBody(ownInput, body)
        if (input.appId !== undefined) throw badRequest('appId is not allowed')
        return json(201, await keys.createOwn(userOf(who), rightsOf(input)))
      },
    }),
    route('DELETE /api/auth/api-keys/{id}', {
      summary: 'Revoke an own API key',
      auth: 'user',
      params: { id: t.id('api key') },
      answers: { 204: null },
      handle: ({ who, params }) => revoke(params.id, userOf(who).id),
    }),
    route('GET /api/admin/api-keys', {
      summary: 'API keys of all users, newest first',
      leastRole: 'viewer',
      auth: 'admin',
      query: pageQuery,
      answers: { 200: t.pageOf(apiKey) },
      handle: async ({ query }) => json(200, await keys.ofAll(parsePage(query))),
    }),
    route('POST /api/admin/api-keys', {
      summary: 'Make an API key for a user',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'api_key.create',
      body: adminInput,
      answers: { 201: madeKey },
      handle: async (call) => {
        const { userId, appId = null, ...rights } = call.body
        return json(201, await keys.createFor(userId, appId, rightsOf(rights), call))
      },
    }),
    route('DELETE /api/admin/api-keys/{id}', {
      summary: 'Revoke any API key',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'api_key.revoke',
      params: { id: t.id('api key') },
      answers: { 204: null },
      handle: (call) => revoke(call.params.id, null, call),
    }),
  ]
  return {
    routes,
    // Resolved keys are cached for at most a minute, so a key in use reaches this about once a minute.
    async resolveApiKey(hash) {
      const who = await keys.resolve(hash)
      if (who) lastUsed.mark(who.keyId)
      return who
    },
    keyById: (id) => keys.byId(id),
    stop: lastUsed.stop,
  }
}

type Given = Pick<t.TypeOf<typeof ownInput>, keyof KeyRights>

function rightsOf({ name, scope = '*', allowedTables = [], orgId }: Given): KeyRights {
  const trimmed = name.trim()
  if (trimmed === '') throw badRequest('name is required')
  if (trimmed.length > MAX_NAME) throw badRequest(`name must be at most ${MAX_NAME} characters`)
  const parsed = parseScope(scope)
  if (!parsed) throw badRequest('invalid scope: must be *, readonly, or readwrite')
  if (!areFewTables(allowedTables)) throw badRequest(`allowedTables: ${FEW_TABLES}`)
  return { name: trimmed, scope: scopeText(parsed), allowedTables, orgId: orgId?.toLowerCase() ?? null }
}
