import { badRequest, found, notFound } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { pageEnvelope, pageQuery, parsePage } from '../../core/page.ts'
import { audited, MADE_ROW, rowBefore } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import type { Sql } from '../../db/sql.ts'
import { json, noContent, type Route, route } from '../../http/route.ts'
import { type AppLimit, createAppLimits } from './app-limit.ts'
import * as q from './sql.ts'

const MAX_NAME = 255
const MAX_DESCRIPTION = 10_000
const MAX_REQUESTS = 1_000_000
/** 31 days. */
const MAX_WINDOW = 2_678_400

const app = t.object({
  id: t.uuid(),
  name: t.string(),
  description: t.string(),
  ownerUserId: t.nullable(t.uuid()),
  rateLimitRps: t.integer({ description: 'requests per window; 0 = no limit' }),
  rateLimitWindowSeconds: t.integer({ description: '0 = 60' }),
  createdAt: t.time(),
  updatedAt: t.time(),
})
const appFields = {
  name: t.string({ description: `at most ${MAX_NAME} characters` }),
  description: t.optional(t.string({ maxLength: MAX_DESCRIPTION })),
  rateLimitRps: t.optional(t.integer({ maximum: MAX_REQUESTS })),
  rateLimitWindowSeconds: t.optional(t.integer({ maximum: MAX_WINDOW })),
}
const change = t.object(appFields)
const one = { auth: 'admin', params: { id: t.id('app') } } as const

export type Apps = {
  routes: Route[]
  /** Null: the app has no limit. */
  appLimit(appId: string): Promise<AppLimit | null>
}

export function createApps(deps: {
  db: Db
  /** Statements that end what belongs to an app, e.g. its OAuth clients; part of the same flight. */
  endWithApp: (appId: string) => readonly Sql[]
  /** Drops what has ended from this process's caches. */
  dropEnded: () => Promise<void>
}): Apps {
  const { db, endWithApp, dropEnded } = deps
  const limits = createAppLimits(db)

  const requireApp = ([app]: q.AppRow[]): q.AppRow => found(app, 'app not found', 'app_not_found')

  const routes = [
    route('GET /api/admin/apps', {
      summary: 'Apps, newest first',
      leastRole: 'viewer',
      auth: 'admin',
      query: pageQuery,
      answers: { 200: t.pageOf(app) },
      handle: async ({ query }) => {
        const { page, perPage, offset } = parsePage(query)
        const [items, [count]] = await Promise.all([
          db.rows<q.AppRow>(SYSTEM, q.appsPage(perPage, offset)),
          db.rows<{ total: number }>(SYSTEM, q.countApps),
        ])
        return json(200, pageEnvelope(items, page, perPage, count?.total ?? 0))
      },
    }),
    route('POST /api/admin/apps', {
      summary: 'Make an app',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'app.create',
      body: t.object({ ...appFields, ownerUserId: t.uuid() }),
      answers: { 201: app },
      handle: async (call) => {
        const insertion = q.insertApp(call.body.ownerUserId, fieldsOf(call.body))
        const [made] = await db.rows<q.AppRow>(SYSTEM, audited(call.audit(), insertion, MADE_ROW))
        if (!made) throw badRequest('owner user not found', 'unknown_reference')
        return json(201, made)
      },
    }),
    route('GET /api/admin/apps/{id}', {
      summary: 'One app',
      leastRole: 'viewer',
      ...one,
      answers: { 200: app },
      handle: async ({ params }) => json(200, requireApp(await db.rows<q.AppRow>(SYSTEM, q.appById(params.id)))),
    }),
    route('PUT /api/admin/apps/{id}', {
      summary: 'Replace all fields of an app but its owner',
      leastRole: 'operator',
      ...one,
      audit: 'app.update',
      body: change,
      answers: { 200: app },
      handle: async (call) => {
        const { id } = call.params
        const old = rowBefore(q.appById(id))
        const update = audited(call.audit(), q.updateApp(id, fieldsOf(call.body)), { ...MADE_ROW, ...old })
        const changed = requireApp(await db.rows<q.AppRow>(SYSTEM, update))
        limits.forget(id)
        return json(200, changed)
      },
    }),
    route('DELETE /api/admin/apps/{id}', {
      summary: 'Delete an app; its API keys are revoked',
      leastRole: 'operator',
      ...one,
      audit: 'app.delete',
      answers: { 204: null },
      handle: async (call) => {
        const { id } = call.params
        const deletion = audited(call.audit(), q.deleteApp(id), rowBefore(q.appById(id)))
        const gone = await db.run(SYSTEM, [q.lockApp(id), q.revokeKeysOfApp(id), ...endWithApp(id), deletion])
        if (gone === 0) throw notFound('app not found', 'app_not_found')
        limits.forget(id)
        await dropEnded()
        return noContent
      },
    }),
  ]
  return { routes, appLimit: limits.appLimit }
}

/** All fields of an app except its owner, with defaults for absent ones. */
function fieldsOf(given: t.TypeOf<typeof change>): q.AppFields {
  const { description = '', rateLimitRps = 0, rateLimitWindowSeconds = 0 } = given
  const name = given.name.trim()
  if (name === '') throw badRequest('name is required')
  if (name.length > MAX_NAME) throw badRequest(`name must be at most ${MAX_NAME} characters`)
  if (rateLimitRps < 0 || rateLimitWindowSeconds < 0) throw badRequest('rate limit values must be non-negative')
  return { name, description, rateLimitRps, rateLimitWindowSeconds }
}
