import { EMPTY, rfc3339, type Sql, sql } from '../../db/sql.ts'

export const STATUSES = ['pending', 'sent', 'failed', 'invalid_token'] as const
export type Status = (typeof STATUSES)[number]
export type PushProviderName = 'fcm' | 'apns'
export type PushDevice = {
  appId: string
  userId: string
  provider: PushProviderName
  platform: string
  token: string
  deviceName: string | undefined
}
export type PushContent = { title: string; body: string; data: Readonly<Record<string, string>> | undefined }

const DEVICE = sql`json_build_object('id', d.id, 'app_id', d.app_id, 'user_id', d.user_id,
  'provider', d.provider, 'platform', d.platform, 'token', d.token, 'device_name', d.device_name,
  'is_active', d.is_active, 'last_refreshed_at', ${rfc3339(sql`d.last_refreshed_at`)}, 'last_used', ${rfc3339(sql`d.last_used`)},
  'created_at', ${rfc3339(sql`d.created_at`)}, 'updated_at', ${rfc3339(sql`d.updated_at`)})`

const DELIVERY = sql`json_build_object('id', v.id, 'device_token_id', v.device_token_id, 'job_id', v.job_id,
  'app_id', v.app_id, 'user_id', v.user_id, 'provider', v.provider, 'title', v.title, 'body', v.body, 'data', v.data,
  'status', v.status, 'error_code', v.error_code, 'error_message', v.error_message,
  'provider_message_id', v.provider_message_id, 'sent_at', ${rfc3339(sql`v.sent_at`)},
  'created_at', ${rfc3339(sql`v.created_at`)}, 'updated_at', ${rfc3339(sql`v.updated_at`)})`

/** Active ones of a user in an app. With one more, the one that was refreshed longest ago becomes inactive. */
const MAX_DEVICES = 100

/** `{app, user, device}`: which of the two exist, and the device if both do. Registering a token moves it to this user. */
export const registerDevice = (device: PushDevice): Sql => sql`
  with app as (select id from svc.apps where id = ${device.appId}::uuid for key share),
  owner as (select id from svc.users where id = ${device.userId}::uuid for key share),
  made as (
    insert into svc.push_devices as d (app_id, user_id, provider, platform, token, device_name)
    select app.id, owner.id, ${device.provider}, ${device.platform}, ${device.token}, ${device.deviceName ?? null}::text
    from app, owner
    on conflict (app_id, provider, token) do update set user_id = excluded.user_id, platform = excluded.platform,
      device_name = coalesce(excluded.device_name, d.device_name), is_active = true, last_refreshed_at = now(),
      updated_at = now()
    returning ${DEVICE} as device
  ), over as (
    update svc.push_devices set is_active = false, updated_at = now() where id = any(array(
      select d.id from svc.push_devices d where d.app_id = ${device.appId}::uuid and d.user_id = ${device.userId}::uuid
        and d.is_active and (d.provider, d.token) <> (${device.provider}, ${device.token})
      order by d.last_refreshed_at desc offset ${MAX_DEVICES - 1}))
  )
  select json_build_object('app', exists (select from app), 'user', exists (select from owner),
    'device', (select device from made))::text`

export const listDevices = (ask: {
  appId: string | undefined
  userId: string | undefined
  includeInactive: boolean
  limit: number
  offset: number
}): Sql => sql`
  select json_build_object('items', coalesce(json_agg(page.device), '[]'))::text from (
    select ${DEVICE} as device from svc.push_devices d where (d.is_active or ${ask.includeInactive}::boolean)
      ${ask.appId === undefined ? EMPTY : sql`and d.app_id = ${ask.appId}::uuid`}
      ${ask.userId === undefined ? EMPTY : sql`and d.user_id = ${ask.userId}::uuid`}
    order by d.created_at desc, d.id desc limit ${ask.limit}::int offset ${ask.offset}::bigint) page`

export const revokeDevice = (id: string, userId?: string): Sql => sql`
  update svc.push_devices set is_active = false, updated_at = now() where id = ${id}::uuid and is_active
    ${userId === undefined ? EMPTY : sql`and user_id = ${userId}::uuid`} returning id`

/** A statement that queues a job for each row of a query. */
export type QueueEach = (rows: Sql) => Sql

const deliver = (devices: Sql, { title, body, data }: PushContent, queueEach: QueueEach): Sql => sql`
  made as (
    insert into svc.push_deliveries as v (job_id, device_token_id, app_id, user_id, provider, title, body, data)
    select gen_random_uuid(), d.id, d.app_id, d.user_id, d.provider, ${title}, ${body},
      ${data === undefined ? null : JSON.stringify(data)}::jsonb
    from svc.push_devices d where d.is_active and ${devices} order by d.created_at, d.id
    returning *
  ), queued as (
    ${queueEach(sql`select m.job_id as id, jsonb_build_object('delivery_id', m.id) as payload from made m`)}
  )`

/** `{app, user, deliveries}`, one for each active device of the user. */
export const sendToUser = (appId: string, userId: string, message: PushContent, queueEach: QueueEach): Sql => sql`
  with ${deliver(sql`d.app_id = ${appId}::uuid and d.user_id = ${userId}::uuid`, message, queueEach)}
  select json_build_object('app', exists (select from svc.apps where id = ${appId}::uuid),
    'user', exists (select from svc.users where id = ${userId}::uuid),
    'deliveries', (select coalesce(json_agg(${DELIVERY}), '[]') from made v))::text`

/** The delivery, or nothing when the device is unknown or inactive. */
export const sendToDevice = (id: string, message: PushContent, queueEach: QueueEach): Sql => sql`
  with ${deliver(sql`d.id = ${id}::uuid`, message, queueEach)}
  select ${DELIVERY}::text from made v`

export const listDeliveries = (ask: {
  appId: string | undefined
  userId: string | undefined
  status: Status | undefined
  limit: number
  offset: number
}): Sql => sql`
  select json_build_object('items', coalesce(json_agg(page.delivery), '[]'))::text from (
    select ${DELIVERY} as delivery from svc.push_deliveries v where true
      ${ask.appId === undefined ? EMPTY : sql`and v.app_id = ${ask.appId}::uuid`}
      ${ask.userId === undefined ? EMPTY : sql`and v.user_id = ${ask.userId}::uuid`}
      ${ask.status === undefined ? EMPTY : sql`and v.status = ${ask.status}`}
    order by v.created_at desc, v.id desc limit ${ask.limit}::int offset ${ask.offset}::bigint) page`

export const onePushDelivery = (id: string): Sql =>
  sql`select ${DELIVERY}::text from svc.push_deliveries v where v.id = ${id}::uuid`

/** A device that another user registered since is not this delivery's any more. */
export const deliveryToSend = (id: string): Sql => sql`
  select v.id::text as id, v.provider, v.title, v.body, v.data, v.status, d.id::text as "deviceId", d.token,
    d.is_active and d.user_id = v.user_id as "isActive"
  from svc.push_deliveries v join svc.push_devices d on d.id = v.device_token_id where v.id = ${id}::uuid`

export const recordSent = (id: string, deviceId: string, messageId: string | undefined): Sql => sql`
  with used as (update svc.push_devices set last_used = now() where id = ${deviceId}::uuid)
  update svc.push_deliveries set status = 'sent', sent_at = now(), provider_message_id = ${messageId ?? null}::text,
    error_code = null, error_message = null, updated_at = now() where id = ${id}::uuid`

/** A device that registered a new token since the message was sent, or is another user's by now, stays active. */
export const recordInvalid = (id: string, deviceId: string, token: string, code: string, message: string): Sql => sql`
  with ended as (
    update svc.push_devices d set is_active = false, updated_at = now() from svc.push_deliveries v
    where d.id = ${deviceId}::uuid and d.token = ${token} and v.id = ${id}::uuid and v.user_id = d.user_id
  )
  update svc.push_deliveries set status = 'invalid_token', error_code = ${code}, error_message = ${message},
    updated_at = now() where id = ${id}::uuid`

export const recordFailed = (id: string, code: string, message: string): Sql => sql`
  update svc.push_deliveries set status = 'failed', error_code = ${code}, error_message = ${message}, updated_at = now()
  where id = ${id}::uuid and status <> 'sent'`

/** Deactivates devices whose token was not refreshed for this long. */
export const deactivateStale = (days: number): Sql => sql`
  update svc.push_devices set is_active = false, updated_at = now()
  where is_active and last_refreshed_at < now() - make_interval(days => ${days}::int)`

/** Deliveries whose job is not finished are kept, however old. */
export const pruneDeliveries = (retentionSeconds: number, isUnderWay: (job: Sql) => Sql, limit: number): Sql => sql`
  delete from svc.push_deliveries where id in (
    select v.id from svc.push_deliveries v where v.updated_at < now() - make_interval(secs => ${retentionSeconds})
      and not ${isUnderWay(sql`v.job_id`)}
    order by v.updated_at limit ${limit}::int for update skip locked)`
