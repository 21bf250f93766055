import { badRequest, notFound, unauthorized } from '../../core/errors.ts'
import { SYSTEM, userIdOf } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import { limitOf } from '../../core/page.ts'
import { isUuid } from '../../core/uuid.ts'
import { audited, changeAudited } from '../../db/audit.ts'
import type { Db } from '../../db/db.ts'
import { type Call, json, jsonText, noContent, type Route, route } from '../../http/route.ts'
import { listDevices, type PushDevice, registerDevice, revokeDevice } from './sql.ts'

const PROVIDERS = ['fcm', 'apns'] as const
const PLATFORMS = ['android', 'ios'] as const
const MAX_TOKEN = 4_096
const MAX_NAME = 200
const PAGE = { limit: 1_000, maxLimit: 1_000 }

const device = t.object({
  id: t.uuid(),
  app_id: t.uuid(),
  user_id: t.uuid(),
  provider: t.oneOf(PROVIDERS),
  platform: t.oneOf(PLATFORMS),
  token: t.string(),
  device_name: t.nullable(t.string()),
  is_active: t.boolean(),
  last_refreshed_at: t.time(),
  last_used: t.nullable(t.time()),
  created_at: t.time(),
  updated_at: t.time(),
})
const deviceFields = {
  provider: t.optional(t.string({ description: 'fcm or apns' })),
  platform: t.optional(t.string({ description: 'android or ios' })),
  token: t.string({ maxLength: MAX_TOKEN }),
  device_name: t.optional(t.string({ maxLength: MAX_NAME })),
}
const newDevice = t.object({ app_id: t.uuid(), ...deviceFields })
const params = { id: t.id('device') }
const devices = t.object({ items: t.array(device) })

/** Parses an answer with the flags `app` and `user`; 400 unless both exist. */
export function requireOwners<T>(text: string | null): T {
  const answer = JSON.parse(text ?? '{}') as { app: boolean; user: boolean } & T
  if (!answer.app) throw badRequest('app not found', 'unknown_reference')
  if (!answer.user) throw badRequest('user not found', 'unknown_reference')
  return answer
}

/** A UUID query parameter; empty counts as absent. */
export function uuidIn(query: Readonly<Record<string, string>>, name: string): string | undefined {
  const value = query[name] || undefined
  if (value !== undefined && !isUuid(value)) throw badRequest(`invalid ${name} format`)
  return value
}

export function deviceRoutes({ db, requires }: { db: Db; requires: () => void }): Route[] {
  const admin = { auth: 'admin', requires } as const
  const user = { auth: 'user', requires } as const
  const registered = (text: string | null) => requireOwners<{ device: { id: string } }>(text).device
  const revoked = (count: number) => {
    if (count === 0) throw notFound('device token not found', 'device_not_found')
    return noContent
  }
  return [
    route('GET /api/admin/push/devices', {
      summary: 'Devices, newest first',
      leastRole: 'operator',
      ...admin,
      query: {
        app_id: t.string(),
        user_id: t.string(),
        include_inactive: t.boolean(),
        limit: t.string(),
        offset: t.string(),
      },
      answers: { 200: devices },
      handle: async ({ query }) => {
        const filter = {
          appId: uuidIn(query, 'app_id'),
          userId: uuidIn(query, 'user_id'),
          includeInactive: query['include_inactive'] === 'true',
          ...limitOf(query, PAGE),
        }
        return jsonText(200, (await db.fly(SYSTEM, listDevices(filter))) ?? '')
      },
    }),
    route('POST /api/admin/push/devices', {
      summary: 'Register a device of a user',
      leastRole: 'operator',
      ...admin,
      audit: 'push_device.create',
      body: t.object({ app_id: t.uuid(), user_id: t.uuid(), ...deviceFields }),
      answers: { 201: device },
      handle: async (call) => {
        const registration = registerDevice(deviceOf(call.body, call.body.user_id))
        const made = await changeAudited(
          db,
          async (tx) => registered(await tx.fly(registration)),
          ({ id }) => call.audit({ target: id }),
        )
        return json(201, made)
      },
    }),
    route('DELETE /api/admin/push/devices/{id}', {
      summary: 'Send to it no more',
      leastRole: 'operator',
      ...admin,
      audit: 'push_device.delete',
      params,
      answers: { 204: null },
      handle: async (call) => revoked(await db.run(SYSTEM, audited(call.audit(), revokeDevice(call.params.id)))),
    }),
    route('POST /api/push/devices', {
      summary: "Register one of the caller's devices",
      ...user,
      body: newDevice,
      answers: { 201: device },
      handle: async (call) =>
        json(201, registered(await db.fly(SYSTEM, registerDevice(deviceOf(call.body, callerOf(call)))))),
    }),
    route('GET /api/push/devices', {
      summary: "The caller's active devices of an app",
      ...user,
      query: { app_id: t.string() },
      answers: { 200: devices },
      handle: async (call) => {
        const appId = uuidIn(call.query, 'app_id')
        if (appId === undefined) throw badRequest('app_id is required')
        const filter = { appId, userId: callerOf(call), includeInactive: false, limit: PAGE.limit, offset: 0 }
        return jsonText(200, (await db.fly(SYSTEM, listDevices(filter))) ?? '')
      },
    }),
    route('DELETE /api/push/devices/{id}', {
      summary: "Send to one of the caller's devices no more",
      ...user,
      params,
      answers: { 204: null },
      handle: async (call) => revoked(await db.run(SYSTEM, revokeDevice(call.params.id, callerOf(call)))),
    }),
  ]
}

function deviceOf(body: t.TypeOf<typeof newDevice>, userId: string): PushDevice {
  const provider = PROVIDERS.find((one) => one === body.provider)
  if (!provider) throw badRequest('provider must be fcm or apns')
  const platform = PLATFORMS.find((one) => one === body.platform)
  if (!platform) throw badRequest('platform must be android or ios')
  const { app_id: appId, token, device_name: deviceName } = body
  return { appId, userId, provider, platform, token, deviceName: deviceName || undefined }
}

/** The guard let only users through. */
function callerOf({ who }: Pick<Call, 'who'>): string {
  const id = userIdOf(who)
  if (id === null) throw unauthorized('not authenticated')
  return id
}
