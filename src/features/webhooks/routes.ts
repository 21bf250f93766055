import { randomUUID } from 'node:crypto'
import { AppError, found, reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Metrics } from '../../core/metrics.ts'
import type { Observe } from '../../core/observe.ts'
import { pageQuery, parsePage } from '../../core/page.ts'
import type { SecretBox } from '../../core/secret-box.ts'
import { auditedEffect } from '../../db/audit.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import { Loop } from '../../db/loop.ts'
import type { Queue } from '../../db/queue/queue.ts'
import { sweep, sweepAll } from '../../db/sweep.ts'
import type { Feature } from '../../http/feature.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { json, jsonText, noContentAfter, route } from '../../http/route.ts'
import { attempt } from './attempt.ts'
import { attemptRecord, createDelivery, WEBHOOK_KIND } from './delivery.ts'
import { createHooks, EVENTS, hookChange, newHook } from './hooks.ts'
import { deliveryToReplay, oldDeliveries } from './sql.ts'

type Deps = {
  db: Db
  log: ChangeLog
  queue: Queue
  outgoing: Outgoing
  /** 32 bytes; secrets are stored encrypted. */
  box: SecretBox
  config: { retry_delays: readonly number[]; delivery_retention: number }
  version: string
  observe: Observe
  metrics: Metrics
}

const COUNT_EVERY_MS = 5_000
const hook = t.object({
  id: t.uuid(),
  url: t.string(),
  hasSecret: t.boolean(),
  events: t.array(t.oneOf(EVENTS)),
  tables: t.array(t.string(), { description: 'empty = all' }),
  enabled: t.boolean(),
  createdAt: t.time(),
  updatedAt: t.time(),
})
const outcome = {
  success: t.boolean(),
  statusCode: t.optional(t.integer()),
  durationMs: t.integer(),
  error: t.optional(t.string()),
}
const delivered = t.object({
  id: t.uuid(),
  webhookId: t.uuid(),
  eventId: t.string(),
  eventAction: t.string(),
  eventTable: t.string(),
  ...outcome,
  attempt: t.integer(),
  requestBody: t.string({ description: 'its first 4 KB' }),
  responseBody: t.string({ description: 'its first 1 KB' }),
  deliveredAt: t.time(),
})
const one = { auth: 'admin', params: { id: t.id('webhook') } } as const

const TEST_BODY = JSON.stringify({ action: 'test', table: '_svc_test', record: { message: 'Test event from Savanna' } })

type ReplayedEvent = { eventId: string; action: string; table: string; attempt: number; body: string; isCut: boolean }

export function createWebhooks(deps: Deps): Feature {
  const { db, queue, outgoing, config, observe, metrics } = deps
  const hooks = createHooks({
    db,
    box: deps.box,
    assertAllowedUrl: outgoing.assertAllowedUrl,
    clearQueue: (id) => queue.clear(WEBHOOK_KIND, id),
  })
  const delivery = createDelivery({ ...deps, hooks, retryDelays: config.retry_delays })

  let loops: Loop[] = []
  let sizes: ReadonlyMap<string, number> = new Map()
  const total = (): number => [...sizes.values()].reduce((sum, size) => sum + size, 0)
  metrics.gauge('svc_webhook_queue', 'Webhook deliveries that wait or run.', [], total, 'max')
  metrics.gauge(
    'svc_webhook_backlog',
    'Webhook deliveries that wait or run, by webhook.',
    ['webhook'],
    () => [...sizes].map(([webhook, value]) => ({ labels: [webhook], value })),
    'max',
  )

  const routes = [
    route('GET /api/webhooks', {
      summary: 'Webhooks, oldest first',
      leastRole: 'operator',
      auth: 'admin',
      answers: { 200: t.array(hook) },
      handle: async () => jsonText(200, await hooks.all()),
    }),
    route('POST /api/webhooks', {
      summary: 'Tell a URL of changes',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'webhook.create',
      body: newHook,
      answers: { 201: hook },
      handle: async (call) => {
        const text = await hooks.create(call.body, call)
        delivery.wake()
        return jsonText(201, text)
      },
    }),
    route('GET /api/webhooks/{id}', {
      summary: 'One webhook',
      leastRole: 'operator',
      ...one,
      answers: { 200: hook },
      handle: async ({ params }) => jsonText(200, await hooks.one(params.id)),
    }),
    route('PATCH /api/webhooks/{id}', {
      summary: 'Change a webhook; what is left out stays',
      leastRole: 'operator',
      ...one,
      audit: 'webhook.update',
      body: hookChange,
      answers: { 200: hook },
      handle: async (call) => {
        const text = await hooks.change(call.params.id, call.body, call)
        delivery.wake()
        return jsonText(200, text)
      },
    }),
    route('DELETE /api/webhooks/{id}', {
      summary: 'Delete a webhook with its history',
      leastRole: 'operator',
      ...one,
      audit: 'webhook.delete',
      answers: { 204: null },
      handle: (call) => noContentAfter(hooks.remove(call.params.id, call)),
    }),
    route('POST /api/webhooks/{id}/test', {
      summary: 'Send a test event now',
      leastRole: 'operator',
      ...one,
      audit: 'webhook.test',
      bodyKind: 'none',
      answers: { 200: t.object(outcome) },
      handle: async (call) => {
        const target = found(await hooks.target(call.params.id), 'webhook not found', 'webhook_not_found')
        const message = { deliveryId: randomUUID(), eventId: randomUUID(), action: 'test', body: TEST_BODY }
        // A sent request cannot be rolled back, so its audit entry is written first.
        const { success, statusCode, durationMs, error } = await auditedEffect(db, call.audit(), () =>
          attempt({ ...deps, now: Date.now }, target, message),
        )
        return json(200, { success, statusCode, durationMs, error })
      },
    }),
    route('GET /api/webhooks/{id}/deliveries', {
      summary: 'Attempts of a webhook, newest first',
      leastRole: 'operator',
      ...one,
      query: { ...pageQuery, failed_only: t.boolean({ default: false }) },
      answers: { 200: t.pageOf(delivered) },
      handle: async ({ params, query }) => {
        const failedOnly = query['failed_only'] === 'true'
        return json(200, await hooks.deliveries(params.id, { failedOnly, ...parsePage(query) }))
      },
    }),
    route('GET /api/webhooks/{id}/deliveries/{deliveryId}', {
      summary: 'One attempt',
      leastRole: 'operator',
      auth: 'admin',
      params: { ...one.params, deliveryId: t.id('delivery') },
      answers: { 200: delivered },
      handle: async ({ params }) => json(200, await hooks.delivery(params.id, params.deliveryId)),
    }),
    route('POST /api/webhooks/{id}/deliveries/{deliveryId}/replay', {
      summary: 'Send the event of a delivery again, now, under its own id',
      leastRole: 'operator',
      auth: 'admin',
      audit: 'webhook.replay',
      bodyKind: 'none',
      params: { ...one.params, deliveryId: t.id('delivery') },
      answers: { 200: delivered },
      handle: async (call) => {
        const { id, deliveryId } = call.params
        const target = found(await hooks.target(id), 'webhook not found', 'webhook_not_found')
        const [past] = await db.rows<ReplayedEvent>(SYSTEM, deliveryToReplay(id, deliveryId))
        const { isCut, attempt: before, ...event } = found(past, 'delivery not found', 'delivery_not_found')
        if (isCut) throw new AppError('wrong_state', 'the body of this delivery was too large to be kept')
        const again = randomUUID()
        // A sent request cannot be rolled back, so its audit entry is written first.
        await auditedEffect(db, call.audit(), async () => {
          const outcome = await attempt({ ...deps, now: Date.now }, target, { ...event, deliveryId: again })
          await db.run(SYSTEM, attemptRecord({ ...event, webhookId: id }, again, before + 1, outcome))
        })
        return json(200, await hooks.delivery(id, again))
      },
    }),
  ]
  return {
    routes,
    jobs: {
      webhook_delivery_prune: async ({ payload: { retention_hours: hours }, log }) => {
        const seconds = typeof hours === 'number' && hours >= 0 ? hours * 3600 : config.delivery_retention
        log(`removed ${await sweepAll(db, oldDeliveries(seconds))}`)
      },
    },
    stats: () => ({ webhook_queue: { queued: total(), byWebhook: Object.fromEntries(sizes) } }),
    start() {
      delivery.start()
      const count = async (): Promise<undefined> => {
        sizes = await queue.sizes(WEBHOOK_KIND)
      }
      const notCounted = (error: unknown): void =>
        observe({ message: 'webhook queue not counted', attrs: { error: reasonOf(error) } })
      loops = [
        new Loop({ step: count, everyMs: COUNT_EVERY_MS, firstMs: COUNT_EVERY_MS, onFailure: notCounted }),
        sweep({ db, observe, what: 'webhook deliveries', remove: [oldDeliveries(config.delivery_retention)] }),
      ]
    },
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}
