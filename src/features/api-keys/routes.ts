import { AppError, badRequest } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import { pageOf } from '../../core/page.ts'
import { isUuid, uuidParam } from '../../core/uuid.ts'
import type { Db } from '../../db/db.ts'
import { object, optionalString, optionalStrings, requiredString } from '../../http/fields.ts'
import { json, noContent, type Reply, type Route, route } from '../../http/route.ts'
import { createKeys, type Wish } from './keys.ts'
import { createLastUsed } from './last-used.ts'
import type { Scope } from './sql.ts'

const SCOPES: readonly string[] = ['*', 'readonly', 'readwrite'] satisfies Scope[]
const MAX_NAME = 255

export type ApiKeys = {
  routes: Route[]
  /** By the SHA-256 of the presented key, in hex. */
  resolveApiKey(hash: string): Promise<(Identity & { kind: 'key' }) | undefined>
  stop(): Promise<void>
}

export function createApiKeys(deps: {
  db: Db
  /** This process forgets the key at once; the others hear of it from the database. */
  revoked: (keyId: string) => void
}): ApiKeys {
  const { db } = deps
  const keys = createKeys(db)
  const lastUsed = createLastUsed(db)

  const revoke = async (id: string, owner: string | null): Promise<Reply> => {
    await keys.revoke(id, owner)
    deps.revoked(id)
    return noContent
  }

  const routes = [
    route('GET /api/auth/api-keys', {
      auth: 'user',
      handle: async ({ who }) => json(200, await keys.ofUser(userOf(who))),
    }),
    route('POST /api/auth/api-keys', {
      auth: 'user',
      // Keys are let in only to be told why they are refused here.
      access: 'read',
      handle: async ({ who, body }) => {
        if (who.kind === 'key') throw new AppError('forbidden', 'API keys cannot create API keys')
        const fields = object(body)
        if (fields['appId'] !== undefined && fields['appId'] !== null) throw badRequest('appId is not allowed')
        return json(201, await keys.create({ userId: userOf(who), appId: null, ...rightsOf(fields) }))
      },
    }),
    route('DELETE /api/auth/api-keys/{id}', {
      auth: 'user',
      handle: ({ who, params }) => revoke(uuidParam(params['id'], 'api key'), userOf(who)),
    }),
    route('GET /api/admin/api-keys', {
      auth: 'admin',
      handle: async ({ query }) => json(200, await keys.ofAll(pageOf(query))),
    }),
    route('POST /api/admin/api-keys', {
      auth: 'admin',
      audit: 'api_key.create',
      handle: async ({ body }) => {
        const wish = adminWish(body)
        await keys.requireOwners(wish.userId, wish.appId)
        const made = await keys.create(wish)
        return { ...json(201, made), audit: { target: made.apiKey.id, newValues: made.apiKey } }
      },
    }),
    route('DELETE /api/admin/api-keys/{id}', {
      auth: 'admin',
      audit: 'api_key.revoke',
      handle: ({ params }) => revoke(uuidParam(params['id'], 'api key'), null),
    }),
  ]
  return {
    routes,
    // Verdicts about keys are cached for a minute at most, so a key in use is seen here about that often.
    async resolveApiKey(hash) {
      const who = await keys.resolve(hash)
      if (who) lastUsed.mark(who.keyId)
      return who
    },
    stop: lastUsed.stop,
  }
}

function userOf(who: Identity): string {
  if (who.kind !== 'user') throw new TypeError('the route guard let somebody in who is no user')
  return who.id
}

type Fields = ReturnType<typeof object>

function rightsOf(fields: Fields): Pick<Wish, 'name' | 'scope' | 'allowedTables'> {
  const name = requiredString(fields, 'name').trim()
  if (name === '') throw badRequest('name is required')
  if (name.length > MAX_NAME) throw badRequest(`name must be at most ${MAX_NAME} characters`)
  const scope = optionalString(fields, 'scope') ?? '*'
  if (!SCOPES.includes(scope)) throw badRequest('invalid scope: must be *, readonly, or readwrite')
  return { name, scope: scope as Scope, allowedTables: optionalStrings(fields, 'allowedTables') ?? [] }
}

function adminWish(body: unknown): Wish {
  const fields = object(body)
  const userId = requiredString(fields, 'userId')
  if (!isUuid(userId)) throw badRequest('invalid userId format')
  const rights = rightsOf(fields)
  const appId = optionalString(fields, 'appId') ?? null
  if (appId !== null && !isUuid(appId)) throw badRequest('invalid appId format')
  return { userId, appId, ...rights }
}
