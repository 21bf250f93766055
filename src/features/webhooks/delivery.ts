import { randomUUID } from 'node:crypto'
import { SYSTEM } from '../../core/identity.ts'
import type { Metrics } from '../../core/metrics.ts'
import type { Observe } from '../../core/observe.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import { type Queue, RetryIn } from '../../db/queue/queue.ts'
import type { Sql } from '../../db/sql.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { attempt, cut, type DeliveryOutcome } from './attempt.ts'
import type { Hooks } from './hooks.ts'
import { anyHook, disableHook, firedEvents, recordAttempt } from './sql.ts'

export const WEBHOOK_KIND = 'webhook'

/** Parallel attempts per process and per receiver, so that a hanging receiver uses few slots. */
const CONCURRENCY = 100
const PER_RECEIVER = 5
const LEASE_SECONDS = 15
const KEPT_REQUEST_BYTES = 4_096
const KEPT_RESPONSE_BYTES = 1_024

type Deps = {
  db: Db
  log: ChangeLog
  queue: Queue
  outgoing: Outgoing
  hooks: Hooks
  retryDelays: readonly number[]
  version: string
  observe: Observe
  metrics: Metrics
}

type WebhookEvent = { webhookId: string; eventId: string; action: string; table: string; body: string; trace?: string }

export type Delivery = {
  start(): void
  /** Call after a webhook was created or changed. */
  wake(): void
}

/** The reader's statement turns changes into queue rows, and queue rows become attempts; no event is held only in memory. */
export function createDelivery(deps: Deps): Delivery {
  const { db, queue, hooks, observe } = deps
  const attempts = deps.metrics.counter('svc_webhook_attempts_total', 'Webhook attempts.', ['result'])
  const failures = deps.metrics.counter('svc_webhook_failures_total', 'Failed webhook attempts.', ['webhook'])

  async function deliver(event: WebhookEvent, attemptNumber: number, signal: AbortSignal): Promise<Sql | undefined> {
    const hook = await hooks.target(event.webhookId)
    if (!hook?.enabled) return undefined
    const id = randomUUID()
    const outcome = await attempt({ ...deps, now: Date.now }, hook, { ...event, deliveryId: id }, signal)
    if (signal.aborted) throw new Error('interrupted')
    attempts.add([outcome.success ? 'success' : 'failure'])
    if (!outcome.success) failures.add([event.webhookId])
    const record = attemptRecord(event, id, attemptNumber, outcome)
    if (outcome.success) return record
    await db.run(SYSTEM, record)
    if (outcome.statusCode === 410) {
      // 410 means gone for good: the webhook is disabled until an administrator enables it again.
      const disabled = await db.run(SYSTEM, [queue.clear(WEBHOOK_KIND, event.webhookId), disableHook(event.webhookId)])
      if (disabled > 0) {
        observe({ message: 'webhook disabled: its receiver is gone', attrs: { webhook: event.webhookId } })
      }
      return undefined
    }
    const reason = outcome.error ?? 'failed'
    if (outcome.retryAfter !== undefined && (outcome.statusCode === 429 || outcome.statusCode === 503)) {
      throw new RetryIn(outcome.retryAfter, reason)
    }
    throw new Error(reason)
  }

  let reading: { wake(): void } | undefined
  return {
    start() {
      queue.work(
        WEBHOOK_KIND,
        {
          concurrency: CONCURRENCY,
          perGroup: PER_RECEIVER,
          leaseSeconds: LEASE_SECONDS,
          retryDelays: deps.retryDelays,
        },
        (item, signal) => deliver(item.payload as WebhookEvent, item.attempt, signal),
      )
      reading = deps.log.followDurably('webhooks', {
        wanted: anyHook,
        effect: queue.pushEach(WEBHOOK_KIND, firedEvents),
        onBatch: () => queue.wake(WEBHOOK_KIND),
      })
    },
    wake: () => reading?.wake(),
  }
}

/** Longer ones cannot be sent again by hand. */
const KEPT_WHOLE_BYTES = 1024 * 1024

const wholeOf = (body: string): string | null => {
  const bytes = Buffer.byteLength(body)
  return bytes > KEPT_REQUEST_BYTES - 4 && bytes <= KEPT_WHOLE_BYTES && !body.includes('\0') ? body : null
}

export const attemptRecord = (event: WebhookEvent, id: string, attemptNumber: number, outcome: DeliveryOutcome): Sql =>
  recordAttempt({
    id,
    webhookId: event.webhookId,
    eventId: event.eventId,
    action: event.action,
    table: event.table,
    success: outcome.success,
    statusCode: outcome.statusCode ?? null,
    attempt: attemptNumber,
    durationMs: outcome.durationMs,
    error: outcome.error ?? null,
    requestBody: cut(event.body, KEPT_REQUEST_BYTES),
    wholeBody: wholeOf(event.body),
    responseBody: cut(outcome.responseBody, KEPT_RESPONSE_BYTES),
  })
