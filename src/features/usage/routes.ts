import { randomUUID } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import { notFound, reasonOf, unavailable } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { ObservedMessage } from '../../core/observations.ts'
import type { Observe } from '../../core/observe.ts'
import { limitOf } from '../../core/page.ts'
import type { UsageMeter } from '../../core/usage-meter.ts'
import type { Db } from '../../db/db.ts'
import { Loop } from '../../db/loop.ts'
import type { Sql } from '../../db/sql.ts'
import type { Feature } from '../../http/feature.ts'
import { json, jsonText, requireEnabled, route } from '../../http/route.ts'
import { granularityOf, groupOf, metricOf, orderOf, usageRange, usageWindow } from './query.ts'
import * as q from './sql.ts'

const FLUSH_MS = 5_000
const STORAGE_EVERY_MS = 300_000

const range = {
  period: t.string({ description: 'day, week or month (default), ending today' }),
  from: t.string({ format: 'date' }),
  to: t.string({ format: 'date', description: 'inclusive' }),
}
const figures = {
  apiRequests: t.integer(),
  storageBytesUsed: t.integer(),
  bandwidthBytes: t.integer(),
  functionInvocations: t.integer(),
}
const noLimits = t.object({
  apiRequests: t.nullable(t.integer()),
  storageBytesUsed: t.nullable(t.integer()),
  bandwidthBytes: t.nullable(t.integer()),
  functionInvocations: t.nullable(t.integer()),
})
const points = t.array(t.object({ timestamp: t.time(), value: t.integer() }))
const parts = t.array(t.object({ key: t.string(), value: t.integer() }))
const UNLIMITED = { apiRequests: null, storageBytesUsed: null, bandwidthBytes: null, functionInvocations: null }

export function createUsage(deps: {
  db: Db
  meter: UsageMeter
  enabled: boolean
  clock: Clock
  observe: Observe
}): Feature {
  const { db, meter, enabled, clock, observe } = deps
  const node = randomUUID()
  let loops: Loop[] = []

  const requires = requireEnabled(enabled, () => unavailable('usage service not configured', 1, 'service_disabled'))
  const fly = async (statement: Sql): Promise<string> => (await db.fly(SYSTEM, statement)) ?? ''

  /** A batch that cannot be written is kept; only a killed process loses its unwritten batch. */
  async function flush(): Promise<void> {
    const batch = meter.take()
    if (batch.tenants.size === 0) return
    try {
      await db.run(SYSTEM, q.addUsage(node, batch))
    } catch (error) {
      meter.restore(batch)
      throw error
    }
  }
  const regularly = (failure: ObservedMessage, everyMs: number, work: () => Promise<unknown>): Loop =>
    new Loop({
      step: async () => void (await work()),
      everyMs,
      firstMs: everyMs,
      onFailure: (error) => observe({ message: failure, attrs: { error: reasonOf(error) } }),
    })

  async function usedBy(tenantId: string, when: q.UsageRange): Promise<{ totals: Record<string, number> }> {
    const [found] = await db.rows<{ yes: boolean }>(SYSTEM, q.isTenant(tenantId))
    if (!found?.yes) throw notFound('tenant not found', 'tenant_not_found')
    return JSON.parse(await fly(q.usageOfTenant(tenantId, when)))
  }

  const admin = { auth: 'admin', requires } as const
  const ofTenant = { ...admin, params: { tenant_id: t.uuid({ refusal: 'invalid tenant_id format' }) }, query: range }

  const routes = [
    route('GET /api/admin/usage', {
      summary: 'What each tenant used',
      leastRole: 'viewer',
      ...admin,
      query: { ...range, sort: t.string(), limit: t.integer({ default: 50, maximum: 500 }), offset: t.integer() },
      answers: {
        200: t.object({
          items: t.array(
            t.object({
              tenantId: t.uuid(),
              tenantName: t.string(),
              requestCount: t.integer(),
              storageBytesUsed: t.integer(),
              bandwidthBytes: t.integer(),
              functionInvocations: t.integer(),
              realtimePeakConnections: t.integer(),
              jobRuns: t.integer(),
            }),
          ),
          total: t.integer(),
          limit: t.integer(),
          offset: t.integer(),
        }),
      },
      handle: async ({ query }) =>
        jsonText(200, await fly(q.usageList(usageRange(query, clock.now()), orderOf(query), usageWindow(query)))),
    }),
    route('GET /api/admin/usage/trends', {
      summary: 'A figure over time',
      leastRole: 'viewer',
      ...admin,
      query: { ...range, metric: t.string(), granularity: t.string() },
      answers: { 200: t.object({ metric: t.string(), granularity: t.string(), items: points }) },
      handle: async ({ query }) => {
        const { name, sum } = metricOf(query)
        const granularity = granularityOf(query, name)
        const items = JSON.parse(await fly(q.usageTrend(usageRange(query, clock.now()), sum, granularity)))
        return json(200, { metric: name, granularity, items })
      },
    }),
    route('GET /api/admin/usage/breakdown', {
      summary: 'A figure by tenant, organization, endpoint or status',
      leastRole: 'viewer',
      ...admin,
      query: { ...range, metric: t.string(), group_by: t.string(), limit: t.integer({ default: 10, maximum: 100 }) },
      answers: { 200: t.object({ metric: t.string(), groupBy: t.string(), items: parts }) },
      handle: async ({ query }) => {
        const { name, sum } = metricOf(query)
        const groupBy = groupOf(query, name)
        const { limit } = limitOf(query, { limit: 10, maxLimit: 100 })
        const when = usageRange(query, clock.now())
        const statement =
          groupBy === 'tenant'
            ? q.breakdownByTenant(when, sum, limit)
            : groupBy === 'organization'
              ? q.breakdownByOrganization(when, sum, limit)
              : q.breakdownOfRequests(when, groupBy, limit)
        return json(200, { metric: name, groupBy, items: JSON.parse(await fly(statement)) })
      },
    }),
    route('GET /api/admin/usage/{tenant_id}', {
      summary: 'What one tenant used, by day',
      leastRole: 'viewer',
      ...ofTenant,
      answers: {
        200: t.object({
          tenantId: t.uuid(),
          period: t.string(),
          data: t.array(t.object({ date: t.string({ format: 'date' }), ...figures })),
          totals: t.object(figures),
          limits: noLimits,
          plan: t.string(),
        }),
      },
      handle: async ({ params, query }) => {
        const { period, ...when } = usageRange(query, clock.now())
        const used = await usedBy(params.tenant_id, when)
        const tenantId = params.tenant_id.toLowerCase()
        return json(200, { tenantId, period, ...used, limits: UNLIMITED, plan: 'unlimited' })
      },
    }),
    route('GET /api/admin/usage/{tenant_id}/limits', {
      summary: 'What one tenant may use',
      leastRole: 'viewer',
      ...ofTenant,
      answers: {
        200: t.object({
          plan: t.string(),
          metrics: t.record(
            t.object({ limit: t.nullable(t.integer()), used: t.integer(), remaining: t.nullable(t.integer()) }),
          ),
        }),
      },
      handle: async ({ params, query }) => {
        const { totals } = await usedBy(params.tenant_id, usageRange(query, clock.now()))
        const figure = (used: number | undefined) => ({ limit: null, used: used ?? 0, remaining: null })
        return json(200, {
          plan: 'unlimited',
          metrics: {
            api_requests: figure(totals['apiRequests']),
            storage_bytes: figure(totals['storageBytesUsed']),
            bandwidth_bytes: figure(totals['bandwidthBytes']),
            function_invocations: figure(totals['functionInvocations']),
          },
        })
      },
    }),
  ]

  return {
    routes,
    start() {
      if (!enabled) return
      const noteStorage = () => db.run(SYSTEM, q.noteStorage, { kind: 'slow' })
      loops = [
        regularly('usage not written', FLUSH_MS, flush),
        regularly('stored bytes not counted', STORAGE_EVERY_MS, noteStorage),
      ]
    },
    async stop() {
      if (!enabled) return
      await Promise.all(loops.map((loop) => loop.stop()))
      try {
        await flush()
        await db.run(SYSTEM, q.leave(node))
      } catch (error) {
        observe({ message: 'usage not written', attrs: { error: reasonOf(error) } })
      }
    },
  }
}
