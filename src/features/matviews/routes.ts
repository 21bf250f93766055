import { badRequest, hasStatus } from '../../core/errors.ts'
import type { JobHandler } from '../../core/job.ts'
import * as t from '../../core/json-type.ts'
import type { Observe } from '../../core/observe.ts'
import type { Db } from '../../db/db.ts'
import { GiveUp } from '../../db/queue/queue.ts'
import type { Feature } from '../../http/feature.ts'
import { json, jsonText, noContentAfter, route } from '../../http/route.ts'
import { MODES, type RefreshMode } from './sql.ts'
import { MatViews } from './views.ts'

const registration = t.object({
  id: t.uuid(),
  schemaName: t.string(),
  viewName: t.string(),
  refreshMode: t.oneOf(MODES),
  lastRefreshAt: t.nullable(t.time()),
  lastRefreshDurationMs: t.nullable(t.integer()),
  lastRefreshStatus: t.nullable(t.oneOf(['success', 'error'])),
  lastRefreshError: t.nullable(t.string()),
  createdAt: t.time(),
  updatedAt: t.time(),
})
const refreshMode = t.string({ description: 'standard (the default) or concurrent' })
const one = { auth: 'admin', params: { id: t.id('matview') } } as const

/** Works without the job queue, which only adds refreshes in the background. */
export function createMatviews({ db, observe }: { db: Db; observe: Observe }): Feature {
  const views = new MatViews({ db, observe })
  const routes = [
    route('GET /api/admin/matviews', {
      summary: 'Registered materialized views, by schema and name',
      leastRole: 'viewer',
      auth: 'admin',
      answers: { 200: t.object({ items: t.array(registration), count: t.integer() }) },
      handle: async () => jsonText(200, await views.all()),
    }),
    route('POST /api/admin/matviews', {
      summary: 'Register a materialized view',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'matview.create',
      body: t.object({ viewName: t.string(), schema: t.optional(t.string()), refreshMode: t.optional(refreshMode) }),
      answers: { 201: registration },
      handle: async (call) => {
        const { schema, viewName, refreshMode: mode } = call.body
        return jsonText(201, await views.register(schema || 'public', viewName, modeOf(mode || 'standard'), call))
      },
    }),
    route('GET /api/admin/matviews/{id}', {
      summary: 'One registration',
      leastRole: 'viewer',
      ...one,
      answers: { 200: registration },
      handle: async (call) => jsonText(200, await views.one(call.params.id)),
    }),
    route('PUT /api/admin/matviews/{id}', {
      summary: 'Change how it is refreshed',
      leastRole: 'operator',
      ...one,
      audit: 'matview.update',
      body: t.object({ refreshMode: t.optional(refreshMode) }),
      answers: { 200: registration },
      handle: async (call) =>
        jsonText(200, await views.changeMode(call.params.id, modeOf(call.body.refreshMode ?? ''), call)),
    }),
    route('DELETE /api/admin/matviews/{id}', {
      summary: 'Forget the registration; the view stays',
      leastRole: 'operator',
      ...one,
      audit: 'matview.delete',
      answers: { 204: null },
      handle: (call) => noContentAfter(views.remove(call.params.id, call)),
    }),
    route('POST /api/admin/matviews/{id}/refresh', {
      summary: 'Refresh it now and wait for the end',
      leastRole: 'operator',
      ...one,
      audit: 'matview.refresh',
      answers: { 200: t.object({ registration, durationMs: t.integer() }) },
      handle: async (call) => {
        const { registration: text, durationMs } = await views.refreshRegistered(call.params.id, call.signal, call)
        return json(200, { registration: JSON.parse(text ?? 'null'), durationMs })
      },
    }),
  ]
  return { routes, jobs: { materialized_view_refresh: refreshJob(views) } }
}

function modeOf(text: string): RefreshMode {
  const mode = MODES.find((one) => one === text)
  if (!mode) throw badRequest("refreshMode must be 'standard' or 'concurrent'")
  return mode
}

const refreshJob =
  (views: MatViews): JobHandler =>
  async ({ payload, signal, log }) => {
    const { schema, view_name: name } = payload
    if (typeof name !== 'string' || name === '') throw new GiveUp('view_name is required')
    try {
      const schemaName = typeof schema === 'string' && schema ? schema : 'public'
      const { durationMs } = await views.refreshNamed(schemaName, name, signal)
      log(`refreshed in ${durationMs} ms`)
    } catch (error) {
      // Only the operator reads the record of a job, so it may contain PostgreSQL's message.
      if (hasStatus(error, 500) && error.cause instanceof Error) {
        throw new Error(`${error.message}: ${error.cause.message}`)
      }
      throw error
    }
  }
