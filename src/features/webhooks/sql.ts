import { EMPTY, rfc3339, type Sql, sql } from '../../db/sql.ts'
import type { RemoveSlice } from '../../db/sweep.ts'

export type HookFields = {
  url: string
  secret: string | null
  events: readonly string[]
  tables: readonly string[]
  enabled: boolean
}

/** A webhook as the API shows it, without the secret. */
const RECORD = sql`json_build_object('id', w.id, 'url', w.url, 'hasSecret', w.secret is not null, 'events', w.events,
  'tables', w.tables, 'enabled', w.enabled, 'createdAt', ${rfc3339(sql`w.created_at`)}, 'updatedAt', ${rfc3339(sql`w.updated_at`)})`

export const allHooks: Sql = sql`
  select coalesce(json_agg(${RECORD} order by w.created_at, w.id), '[]')::text from svc.webhooks w`

export const oneHook = (id: string): Sql => sql`select ${RECORD}::text from svc.webhooks w where w.id = ${id}::uuid`

export const addHook = (id: string, hook: HookFields): Sql => sql`
  insert into svc.webhooks as w (id, url, secret, events, tables, enabled)
  values (${id}::uuid, ${hook.url}, ${hook.secret}, ${hook.events}::text[], ${hook.tables}::text[], ${hook.enabled})
  returning ${RECORD}::text as record`

/** Undefined = unchanged. Changes that were committed while the webhook was disabled do not fire. */
export const changeHook = (
  id: string,
  change: { [Name in keyof HookFields]: HookFields[Name] | undefined },
): Sql => sql`
  update svc.webhooks w set updated_at = now()
    ${change.url === undefined ? EMPTY : sql`, url = ${change.url}`}
    ${change.secret === undefined ? EMPTY : sql`, secret = ${change.secret}`}
    ${change.events === undefined ? EMPTY : sql`, events = ${change.events}::text[]`}
    ${change.tables === undefined ? EMPTY : sql`, tables = ${change.tables}::text[]`}
    ${
      change.enabled === undefined
        ? EMPTY
        : sql`, enabled = ${change.enabled}::boolean,
      since = case when ${change.enabled}::boolean and not w.enabled then pg_current_snapshot() else w.since end`
    }
  where w.id = ${id}::uuid returning ${RECORD}::text as record`

export const disableHook = (id: string): Sql =>
  sql`update svc.webhooks set enabled = false, updated_at = now() where id = ${id}::uuid and enabled`

export const removeHook = (id: string): Sql => sql`delete from svc.webhooks where id = ${id}::uuid returning id`

export const hookTarget = (id: string): Sql => sql`select url, secret, enabled from svc.webhooks where id = ${id}::uuid`

export const anyHook: Sql = sql`exists (select from svc.webhooks where enabled)`

/**
 * The events of the reader's batch, one queue row per change and webhook. The event id is derived from the change's
 * position in the log, so a repeated batch makes the same id; the body is text, so every attempt signs the same bytes.
 * `trace` is there where the change was made by a server with telemetry.
 */
export const firedEvents: Sql = sql`
  select w.id::text as group_key, jsonb_build_object(
    'webhookId', w.id, 'eventId', md5(c.xid::text || '-' || c.id::text)::uuid, 'action', c.action, 'table', c.table_name,
    'body', case c.action
      when 'create' then json_build_object('action', c.action, 'table', c.table_name, 'record', c.record)
      when 'update' then json_build_object('action', c.action, 'table', c.table_name, 'record', c.record, 'old_record', c.old_record)
      else json_build_object('action', c.action, 'table', c.table_name, 'record', c.pk, 'old_record', c.old_record)
    end::text) || coalesce((
      select jsonb_build_object('trace', l.trace) from svc.change_log l where l.id = c.entry and l.trace is not null), '{}') as payload
  from batch c join svc.webhooks w on w.enabled and c.action = any(w.events)
    -- Files are not among all tables: they are named.
    and (case when c.table_oid = 'svc.objects'::regclass then false else w.tables = '{}' or c.table_name = any(w.tables) end or c.schema_name || '.' || c.table_name = any(w.tables))
    and not pg_visible_in_snapshot(c.xid, w.since)
  order by c.id`

export type Attempt = {
  id: string
  webhookId: string
  eventId: string
  action: string
  table: string
  success: boolean
  statusCode: number | null
  attempt: number
  durationMs: number
  error: string | null
  requestBody: string
  /** Where `requestBody` is a part of it. */
  wholeBody: string | null
  responseBody: string
}

/** Writes nothing if the webhook was deleted meanwhile. */
export const recordAttempt = (a: Attempt): Sql => sql`
  insert into svc.webhook_deliveries (id, webhook_id, event_id, event_action, event_table, success, status_code, attempt,
    duration_ms, error, request_body, whole_body, response_body)
  select ${a.id}::uuid, w.id, ${a.eventId}, ${a.action}, ${a.table}, ${a.success}::boolean, ${a.statusCode}::int, ${a.attempt}::int,
    ${a.durationMs}::int, ${a.error}, ${a.requestBody}, ${a.wholeBody}, ${a.responseBody}
  from svc.webhooks w where w.id = ${a.webhookId}::uuid for key share`

const DELIVERY = sql`json_strip_nulls(json_build_object('id', d.id, 'webhookId', d.webhook_id, 'eventId', d.event_id,
  'eventAction', d.event_action, 'eventTable', d.event_table, 'success', d.success, 'statusCode', d.status_code,
  'attempt', d.attempt, 'durationMs', d.duration_ms, 'error', d.error, 'requestBody', d.request_body,
  'responseBody', d.response_body, 'deliveredAt', ${rfc3339(sql`d.delivered_at`)}))`

/** Bounds the cost of the count; no client pages this far. */
const MAX_COUNTED = 10_000

/**
 * {exists, total, items}, for the page and the 404. Count and page are read from an index; bodies are fetched only for
 * the rows of the page.
 */
export const deliveriesOf = (webhookId: string, query: { failedOnly: boolean; limit: number; offset: number }): Sql => {
  const chosen = sql`from svc.webhook_deliveries where webhook_id = ${webhookId}::uuid${query.failedOnly ? sql` and not success` : EMPTY}`
  const newest = sql`order by delivered_at desc, id desc`
  return sql`
  select json_build_object('exists', exists (select from svc.webhooks where id = ${webhookId}::uuid),
    'total', (select count(*) from (select ${chosen} ${newest} limit ${MAX_COUNTED}::int) counted), 'items', (
      select coalesce(json_agg(${DELIVERY} order by d.delivered_at desc, d.id desc), '[]')
      from (select id ${chosen} ${newest} limit ${query.limit}::int offset ${query.offset}::bigint) page
      join svc.webhook_deliveries d using (id)
    ))::text`
}

export const oneWebhookDelivery = (webhookId: string, id: string): Sql => sql`
  select json_build_object('exists', exists (select from svc.webhooks where id = ${webhookId}::uuid),
    'delivery', (select ${DELIVERY} from svc.webhook_deliveries d where d.id = ${id}::uuid and d.webhook_id = ${webhookId}::uuid))::text`

export const deliveryToReplay = (webhookId: string, id: string): Sql => sql`
  select event_id::text as "eventId", event_action as action, event_table as table, attempt, coalesce(whole_body, request_body) as body,
    whole_body is null and octet_length(request_body) > ${LONGEST_SHOWN}::int as "isCut"
  from svc.webhook_deliveries where id = ${id}::uuid and webhook_id = ${webhookId}::uuid`

/** A shown body this long may be a part of one that is not kept. */
const LONGEST_SHOWN = 4_092

export const oldDeliveries =
  (retentionSeconds: number): RemoveSlice =>
  (limit) =>
    sql`
    delete from svc.webhook_deliveries where id in (
      select id from svc.webhook_deliveries where delivered_at < now() - make_interval(secs => ${retentionSeconds})
      order by delivered_at limit ${limit}::int)`
