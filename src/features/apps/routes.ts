import { badRequest, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import { pageEnvelope, pageOf } from '../../core/page.ts'
import { isUuid, uuidParam } from '../../core/uuid.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { object, optionalInteger, optionalString, requiredString } from '../../http/fields.ts'
import { json, noContent, type Route, route } from '../../http/route.ts'
import { type AppLimit, createAppLimits } from './app-limit.ts'
import {
  type App,
  type AppFields,
  appById,
  appsPage,
  countApps,
  deleteApp,
  insertApp,
  lockApp,
  revokeKeysOfApp,
  updateApp,
} from './sql.ts'

const MAX_NAME = 255
const MAX_DESCRIPTION = 10_000
const MAX_REQUESTS = 1_000_000
/** 31 days. */
const MAX_WINDOW = 2_678_400

export type Apps = {
  routes: Route[]
  /** Null: the app has no limit. */
  appLimit(appId: string): Promise<AppLimit | null>
}

export function createApps(deps: {
  db: Db
  /** What else ends with an app, e.g. its OAuth clients; part of the same flight. */
  endWithApp?: (appId: string) => readonly Sql[]
}): Apps {
  const { db, endWithApp = () => [] } = deps
  const limits = createAppLimits(db)

  const found = ([app]: App[]): App => {
    if (!app) throw notFound('app not found')
    return app
  }

  const routes = [
    route('GET /api/admin/apps', {
      auth: 'admin',
      handle: async ({ query }) => {
        const { page, perPage, offset } = pageOf(query)
        const [items, [count]] = await Promise.all([
          db.rows<App>(SYSTEM, appsPage(perPage, offset)),
          db.rows<{ total: number }>(SYSTEM, countApps),
        ])
        return json(200, pageEnvelope(items, page, perPage, count?.total ?? 0))
      },
    }),
    route('POST /api/admin/apps', {
      auth: 'admin',
      audit: 'app.create',
      handle: async ({ body }) => {
        const fields = object(body)
        const app = appFields(fields)
        const owner = requiredString(fields, 'ownerUserId')
        if (!isUuid(owner)) throw badRequest('invalid ownerUserId format')
        const [made] = await db.rows<App>(SYSTEM, insertApp(owner, app))
        if (!made) throw badRequest('owner user not found')
        return { ...json(201, made), audit: { target: made.id, newValues: made } }
      },
    }),
    route('GET /api/admin/apps/{id}', {
      auth: 'admin',
      handle: async ({ params }) => json(200, found(await db.rows<App>(SYSTEM, appById(idOf(params))))),
    }),
    route('PUT /api/admin/apps/{id}', {
      auth: 'admin',
      audit: 'app.update',
      handle: async ({ params, body }) => {
        const id = idOf(params)
        const app = found(await db.rows<App>(SYSTEM, updateApp(id, appFields(object(body)))))
        limits.forget(id)
        return { ...json(200, app), audit: { target: id, newValues: app } }
      },
    }),
    route('DELETE /api/admin/apps/{id}', {
      auth: 'admin',
      audit: 'app.delete',
      handle: async ({ params }) => {
        const id = idOf(params)
        const gone = await db.run(SYSTEM, [lockApp(id), revokeKeysOfApp(id), ...endWithApp(id), deleteApp(id)])
        if (gone === 0) throw notFound('app not found')
        limits.forget(id)
        return noContent
      },
    }),
  ]
  return { routes, appLimit: limits.appLimit }
}

const idOf = (params: Readonly<Record<string, string>>): string => uuidParam(params['id'], 'app')

/** All fields of an app but its owner; what is absent is empty. */
function appFields(fields: ReturnType<typeof object>): AppFields {
  const name = requiredString(fields, 'name').trim()
  if (name === '') throw badRequest('name is required')
  const description = optionalString(fields, 'description') ?? ''
  if (name.length > MAX_NAME) throw badRequest(`name must be at most ${MAX_NAME} characters`)
  if (description.length > MAX_DESCRIPTION) {
    throw badRequest(`description must be at most ${MAX_DESCRIPTION} characters`)
  }
  return {
    name,
    description,
    rateLimitRps: limitValue(fields, 'rateLimitRps', MAX_REQUESTS),
    rateLimitWindowSeconds: limitValue(fields, 'rateLimitWindowSeconds', MAX_WINDOW),
  }
}

function limitValue(fields: ReturnType<typeof object>, name: string, max: number): number {
  const value = optionalInteger(fields, name) ?? 0
  if (value < 0) throw badRequest('rate limit values must be non-negative')
  if (value > max) throw badRequest(`${name} must be at most ${max}`)
  return value
}
