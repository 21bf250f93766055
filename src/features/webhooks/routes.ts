import { randomUUID } from 'node:crypto'
import { notFound, reasonOf } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { Metrics } from '../../core/metrics.ts'
import type { Observe } from '../../core/observe.ts'
import { pageOf } from '../../core/page.ts'
import { uuidParam } from '../../core/uuid.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import type { Queue } from '../../db/queue/queue.ts'
import { queryBoolean } from '../../http/fields.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { json, jsonText, noContent, type Route, route } from '../../http/route.ts'
import { attempt } from './attempt.ts'
import { KIND, startDelivery } from './delivery.ts'
import { createHooks } from './hooks.ts'
import { pruneDeliveries } from './sql.ts'

type Deps = {
  db: Db
  log: ChangeLog
  queue: Queue
  outgoing: Outgoing
  /** 32 bytes; secrets are stored encrypted. */
  encryptionKey: Buffer
  config: { retry_delays: readonly number[]; delivery_retention: number }
  version: string
  observe: Observe
  metrics: Metrics
}

export type Webhooks = { routes: Route[]; stats(): Record<string, unknown>; stop(): void }

const PRUNE_EVERY_MS = 3_600_000
const PRUNE_SLICE = 5_000
const COUNT_EVERY_MS = 5_000
const TEST_BODY = JSON.stringify({ action: 'test', table: '_svc_test', record: { message: 'Test event from Savanna' } })

export function createWebhooks(deps: Deps): Webhooks {
  const { db, queue, outgoing, config, observe, metrics } = deps
  const hooks = createHooks({
    db,
    encryptionKey: deps.encryptionKey,
    assertAllowedUrl: outgoing.assertAllowedUrl,
    clearQueue: (id) => queue.clear(KIND, id),
  })
  const delivery = startDelivery({ ...deps, hooks, retryDelays: config.retry_delays })

  let sizes: ReadonlyMap<string, number> = new Map()
  const total = (): number => [...sizes.values()].reduce((sum, size) => sum + size, 0)
  metrics.gauge('svc_webhook_queue', 'Webhook deliveries that wait or run.', [], total)
  metrics.gauge('svc_webhook_backlog', 'Webhook deliveries that wait or run, by webhook.', ['webhook'], () =>
    [...sizes].map(([webhook, value]) => ({ labels: [webhook], value })),
  )

  const quietly = (what: string, work: () => Promise<void>) => (): void => {
    work().catch((error: unknown) => observe({ level: 'warn', message: what, attrs: { error: reasonOf(error) } }))
  }
  const count = quietly('webhook queue not counted', async () => {
    sizes = await queue.sizes(KIND)
  })
  const prune = quietly('webhook deliveries not pruned', async () => {
    while ((await db.run(SYSTEM, pruneDeliveries(config.delivery_retention, PRUNE_SLICE))) === PRUNE_SLICE);
  })
  const timers = [setInterval(count, COUNT_EVERY_MS).unref(), setInterval(prune, PRUNE_EVERY_MS).unref()]
  prune()

  const hookId = (params: Readonly<Record<string, string>>): string => uuidParam(params['id'], 'webhook')

  const routes = [
    route('GET /api/webhooks', { auth: 'admin', handle: async () => jsonText(200, await hooks.all()) }),
    route('POST /api/webhooks', {
      auth: 'admin',
      audit: 'webhook.create',
      handle: async ({ body }) => {
        const made = JSON.parse(await hooks.create(body)) as { id: string }
        delivery.wake()
        return { ...json(201, made), audit: { target: made.id, newValues: made } }
      },
    }),
    route('GET /api/webhooks/{id}', {
      auth: 'admin',
      handle: async ({ params }) => jsonText(200, await hooks.one(hookId(params))),
    }),
    route('PATCH /api/webhooks/{id}', {
      auth: 'admin',
      audit: 'webhook.update',
      handle: async ({ params, body }) => {
        const text = await hooks.change(hookId(params), body)
        delivery.wake()
        return { ...jsonText(200, text), audit: { newValues: JSON.parse(text) } }
      },
    }),
    route('DELETE /api/webhooks/{id}', {
      auth: 'admin',
      audit: 'webhook.delete',
      handle: async ({ params }) => {
        await hooks.remove(hookId(params))
        return noContent
      },
    }),
    route('POST /api/webhooks/{id}/test', {
      auth: 'admin',
      audit: 'webhook.test',
      handle: async ({ params }) => {
        const hook = await hooks.target(hookId(params))
        if (!hook) throw notFound('webhook not found')
        const message = { deliveryId: randomUUID(), eventId: randomUUID(), action: 'test', body: TEST_BODY }
        const { success, statusCode, durationMs, error } = await attempt({ ...deps, now: Date.now }, hook, message)
        return json(200, { success, statusCode, durationMs, error })
      },
    }),
    route('GET /api/webhooks/{id}/deliveries', {
      auth: 'admin',
      handle: async ({ params, query }) => {
        const failedOnly = queryBoolean(query, 'failed_only') ?? false
        return json(200, await hooks.deliveries(hookId(params), { failedOnly, ...pageOf(query) }))
      },
    }),
    route('GET /api/webhooks/{id}/deliveries/{deliveryId}', {
      auth: 'admin',
      handle: async ({ params }) =>
        json(200, await hooks.delivery(hookId(params), uuidParam(params['deliveryId'], 'delivery'))),
    }),
  ]
  return {
    routes,
    stats: () => ({ webhook_queue: { queued: total(), byWebhook: Object.fromEntries(sizes) } }),
    stop() {
      for (const timer of timers) clearInterval(timer)
    },
  }
}
