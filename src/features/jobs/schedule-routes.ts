import { badRequest } from '../../core/errors.ts'
import * as t from '../../core/json-type.ts'
import { maskJson } from '../../core/redact.ts'
import { jsonText, noContentAfter, type Route, route } from '../../http/route.ts'
import { requireRoleOfRequests } from './job-role.ts'
import { job } from './job-schema.ts'
import type { Schedules } from './schedules.ts'

const MAX_NAME = 100
const DEFAULT_ATTEMPTS = 3

const schedule = t.object({
  id: t.uuid(),
  name: t.string(),
  jobType: t.string(),
  cronExpr: t.string(),
  timezone: t.string(),
  payload: t.record(t.any()),
  enabled: t.boolean(),
  maxAttempts: t.integer(),
  nextRunAt: t.nullable(t.time()),
  lastRunAt: t.optional(t.time()),
  createdAt: t.time(),
  updatedAt: t.time(),
})

const change = {
  cronExpr: t.optional(t.string({ description: 'five fields' })),
  timezone: t.optional(t.string({ description: 'IANA name; default UTC' })),
  payload: t.optional(t.record(t.any())),
  enabled: t.optional(t.boolean()),
  maxAttempts: t.optional(t.integer({ minimum: 1, maximum: 1000 })),
}
const newSchedule = t.object({
  name: t.string({ maxLength: MAX_NAME }),
  jobType: t.string({ maxLength: MAX_NAME }),
  ...change,
  cronExpr: t.string({ description: 'five fields' }),
})

export function scheduleRoutes(deps: {
  schedules: Schedules
  requires: () => void
  /** Called after a job was queued. */
  onQueued: () => void
}): Route[] {
  const { schedules, requires } = deps
  const admin = { auth: 'admin', requires } as const
  const one = { ...admin, params: { id: t.id('schedule') } }
  const switchTo = (action: 'enable' | 'disable'): Route =>
    route(`POST /api/admin/schedules/{id}/${action}`, {
      summary: action === 'enable' ? 'Run it from now on' : 'Run it no more',
      leastRole: 'operator',
      ...one,
      audit: `schedule.${action}`,
      answers: { 200: schedule },
      handle: async (call) =>
        jsonText(200, await schedules.change(call.params.id, { enabled: action === 'enable' }, call)),
    })

  return [
    route('GET /api/admin/schedules', {
      summary: 'All schedules, by name',
      leastRole: 'operator',
      ...admin,
      answers: { 200: t.object({ items: t.array(schedule), count: t.integer() }) },
      handle: async () => jsonText(200, await schedules.all()),
    }),
    route('POST /api/admin/schedules', {
      summary: 'Make a schedule',
      leastRole: 'operator',
      ...admin,
      audit: 'schedule.create',
      body: newSchedule,
      answers: { 201: schedule },
      handle: async (call) => {
        const { body } = call
        const name = body.name.trim()
        if (name === '') throw badRequest('name is required')
        const { jobType, cronExpr, enabled = true, maxAttempts = DEFAULT_ATTEMPTS } = body
        requireRoleOfRequests(call.who, jobType, body.payload ?? {})
        const payload = JSON.stringify(body.payload ?? {})
        const input = { name, jobType, cronExpr, timezone: body.timezone || 'UTC', payload, enabled, maxAttempts }
        return jsonText(201, await schedules.create(input, call))
      },
    }),
    route('PUT /api/admin/schedules/{id}', {
      summary: 'Change a schedule; what is absent stays',
      leastRole: 'operator',
      ...one,
      audit: 'schedule.update',
      body: t.object(change),
      answers: { 200: schedule },
      handle: async (call) => {
        const { cronExpr, timezone, payload, enabled, maxAttempts } = call.body
        const change = {
          ...(cronExpr && { cronExpr }),
          ...(timezone && { timezone }),
          ...(payload && { payload: JSON.stringify(payload) }),
          ...(enabled !== undefined && { enabled }),
          ...(maxAttempts !== undefined && { maxAttempts }),
        }
        const check = (type: string) => payload && requireRoleOfRequests(call.who, type, payload)
        return jsonText(200, await schedules.change(call.params.id, change, call, check))
      },
    }),
    route('DELETE /api/admin/schedules/{id}', {
      summary: 'Remove a schedule; its jobs stay',
      leastRole: 'operator',
      ...one,
      audit: 'schedule.delete',
      answers: { 204: null },
      handle: (call) => noContentAfter(schedules.remove(call.params.id, call)),
    }),
    switchTo('enable'),
    switchTo('disable'),
    route('POST /api/admin/schedules/{id}/run', {
      summary: 'Run it now, besides its times',
      leastRole: 'operator',
      ...one,
      audit: 'schedule.run',
      answers: { 201: job },
      handle: async (call) => {
        const made = await schedules.run(call.params.id, call)
        deps.onQueued()
        return jsonText(201, maskJson(made))
      },
    }),
  ]
}
