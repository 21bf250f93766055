import { AppError, badRequest, found } from '../../core/errors.ts'
import { SYSTEM } from '../../core/identity.ts'
import type { JobHandler } from '../../core/job.ts'
import * as t from '../../core/json-type.ts'
import type { Observe } from '../../core/observe.ts'
import { limitOf } from '../../core/page.ts'
import { changeAudited } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import type { Loop } from '../../db/loop.ts'
import type { Sql } from '../../db/sql.ts'
import { sweep } from '../../db/sweep.ts'
import type { Feature } from '../../http/feature.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { json, jsonText, type Route, requireEnabled, route } from '../../http/route.ts'
import { Apns } from './apns.ts'
import { apnsCredentials, fcmCredentials } from './credentials.ts'
import { deliveryJob } from './delivery.ts'
import { deviceRoutes, requireOwners, uuidIn } from './device-routes.ts'
import { Fcm } from './fcm.ts'
import { logProvider, type PushProvider } from './provider.ts'
import * as q from './sql.ts'

type PushConfig = {
  enabled: boolean
  fcm: { credentials_file: string; endpoint: string }
  apns: {
    key_file: string
    team_id: string
    key_id: string
    bundle_id: string
    environment: 'production' | 'sandbox'
    endpoint: string
  }
}

type Deps = {
  db: Db
  observe: Observe
  /** For URLs that the operator configured. */
  outgoing: Outgoing
  /** A statement that queues a job of the type for each row (id, payload) of a query. */
  queueJobs: (type: string, rows: Sql, maxAttempts: number) => Sql
  wakeJobs: () => void
  /** A condition: the job of this id is queued or running. */
  isUnderWay: (job: Sql) => Sql
  /** Deliveries are kept as long as the jobs that made them. */
  retentionSeconds: number
  config: PushConfig
  /** Of one attempt. */
  timeoutMs?: number
}

const JOB = 'push_delivery'
const MAX_ATTEMPTS = 3
const TIMEOUT_MS = 10_000
const MAX_BYTES = 4_096
const APPLE = { production: 'https://api.push.apple.com', sandbox: 'https://api.sandbox.push.apple.com' }

const delivery = t.object({
  id: t.uuid(),
  device_token_id: t.uuid(),
  job_id: t.nullable(t.uuid()),
  app_id: t.uuid(),
  user_id: t.uuid(),
  provider: t.oneOf(['fcm', 'apns']),
  title: t.string(),
  body: t.string(),
  data: t.nullable(t.record(t.string())),
  status: t.oneOf(q.STATUSES),
  error_code: t.nullable(t.string({ description: "the service's own" })),
  error_message: t.nullable(t.string()),
  provider_message_id: t.nullable(t.string()),
  sent_at: t.nullable(t.time()),
  created_at: t.time(),
  updated_at: t.time(),
})

const message = {
  title: t.string(),
  body: t.string(),
  data: t.optional(t.record(t.any(), { description: 'values are strings; 4096 bytes together with title and body' })),
}

export function createPush(deps: Deps): Feature {
  const { db, observe, config, retentionSeconds, isUnderWay } = deps
  const disabled = (): AppError => new AppError('service_disabled', 'push notifications are not enabled')
  const requires = requireEnabled(config.enabled, disabled)
  const admin: AdminOnly = { auth: 'admin', requires }
  const routes = [...deviceRoutes({ db, requires }), ...sendRoutes(deps, admin), ...deliveryRoutes(db, admin)]
  if (!config.enabled) return { routes }
  const providers = providersOf(deps)
  let sweeping: Loop | undefined
  const jobs: Record<string, JobHandler> = { [JOB]: deliveryJob(db, providers) }
  return {
    routes,
    jobs,
    start() {
      const remove = (limit: number): Sql => q.pruneDeliveries(retentionSeconds, isUnderWay, limit)
      sweeping = sweep({ db, observe, what: 'push deliveries', remove: [remove] })
    },
    async stop() {
      await sweeping?.stop()
      for (const provider of Object.values(providers)) provider.stop?.()
    },
  }
}

/** Throws if a configured file cannot be used. */
function providersOf({
  config,
  outgoing,
  observe,
  timeoutMs = TIMEOUT_MS,
}: Deps): Record<q.PushProviderName, PushProvider> {
  const fcm = fcmCredentials(config.fcm.credentials_file)
  const apns = apnsCredentials(config.apns)
  const endpoint = config.apns.endpoint || APPLE[config.apns.environment]
  return {
    fcm: fcm ? new Fcm({ credentials: fcm, outgoing, endpoint: config.fcm.endpoint, timeoutMs }) : logProvider(observe),
    apns: apns ? new Apns({ credentials: apns, endpoint, timeoutMs }) : logProvider(observe),
  }
}

type AdminOnly = { auth: 'admin'; requires: () => void }

function sendRoutes({ db, queueJobs, wakeJobs }: Deps, admin: AdminOnly): Route[] {
  const queueEach: q.QueueEach = (rows) => queueJobs(JOB, rows, MAX_ATTEMPTS)
  return [
    route('POST /api/admin/push/send', {
      summary: 'Send to every active device of a user',
      leastRole: 'operator',
      ...admin,
      audit: 'push.send',
      body: t.object({ app_id: t.uuid(), user_id: t.uuid(), ...message }),
      answers: { 200: t.object({ deliveries: t.array(delivery) }) },
      handle: async (call) => {
        const { app_id: appId, user_id: userId } = call.body
        const sending = q.sendToUser(appId, userId, messageOf(call.body), queueEach)
        const { deliveries } = await changeAudited(
          db,
          async (tx) => requireOwners<{ deliveries: unknown[] }>(await tx.fly(sending)),
          () => call.audit({ target: userId }),
        )
        wakeJobs()
        return json(200, { deliveries })
      },
    }),
    route('POST /api/admin/push/send-to-token', {
      summary: 'Send to one device',
      leastRole: 'operator',
      ...admin,
      audit: 'push.send',
      body: t.object({ token_id: t.uuid(), ...message }),
      answers: { 200: delivery },
      handle: async (call) => {
        const { token_id: target } = call.body
        const sending = q.sendToDevice(target, messageOf(call.body), queueEach)
        const sent = await changeAudited(
          db,
          async (tx) => found(await tx.fly(sending), 'device token not found', 'device_not_found'),
          () => call.audit({ target }),
        )
        wakeJobs()
        return jsonText(200, sent)
      },
    }),
  ]
}

function messageOf({ title, body, data }: t.ObjectOf<typeof message>): q.PushContent {
  const values = Object.entries(data ?? {})
  if (values.some(([, value]) => typeof value !== 'string')) throw badRequest('data values must be strings')
  // APNs reserves the key `aps` for its own part of a message.
  if (data && Object.hasOwn(data, 'aps')) throw badRequest('data must not contain the key aps')
  const texts = data as Record<string, string> | undefined
  if (Buffer.byteLength(JSON.stringify({ title, body, data: texts })) > MAX_BYTES) {
    throw badRequest(`payload exceeds ${MAX_BYTES} bytes`)
  }
  return { title, body, data: texts }
}

function deliveryRoutes(db: Db, admin: AdminOnly): Route[] {
  return [
    route('GET /api/admin/push/deliveries', {
      summary: 'Deliveries, newest first',
      leastRole: 'operator',
      ...admin,
      query: { app_id: t.string(), user_id: t.string(), status: t.string(), limit: t.string(), offset: t.string() },
      answers: { 200: t.object({ items: t.array(delivery) }) },
      handle: async ({ query }) => {
        const name = query['status']?.toLowerCase()
        const status = q.STATUSES.find((one) => one === name)
        if (name && !status) throw badRequest('invalid status filter')
        const page = limitOf(query, { limit: 50, maxLimit: 500 })
        const filter = { appId: uuidIn(query, 'app_id'), userId: uuidIn(query, 'user_id'), status, ...page }
        return jsonText(200, (await db.fly(SYSTEM, q.listDeliveries(filter))) ?? '')
      },
    }),
    route('GET /api/admin/push/deliveries/{id}', {
      summary: 'One delivery',
      leastRole: 'operator',
      ...admin,
      params: { id: t.id('delivery') },
      answers: { 200: delivery },
      handle: async ({ params }) => {
        const text = await db.fly(SYSTEM, q.onePushDelivery(params.id))
        return jsonText(200, found(text, 'delivery not found', 'delivery_not_found'))
      },
    }),
  ]
}
