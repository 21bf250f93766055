import { NO_TENANT, type UsageBatch } from '../../core/usage-meter.ts'
import { type Sql, sql } from '../../db/sql.ts'

export type UsageRange = { from: string; to: string }

const hour = sql`date_trunc('hour', now())`
/** Streams of processes that have not reported for this long are not counted. */
const alive = sql`at > now() - interval '30 seconds'`

/** One statement for the whole batch; several processes add to the same rows. */
export function addUsage(node: string, { tenants, endpoints, organizations }: UsageBatch): Sql {
  const used = JSON.stringify([...tenants].map(([tenant, figures]) => ({ tenant, ...figures })))
  const requests = JSON.stringify([...endpoints.values()])
  const ofOrganizations = JSON.stringify([...organizations].map(([id, figures]) => ({ id, ...figures })))
  return sql`
    with used as (
      select * from json_to_recordset(${used}::json) as u(tenant uuid, requests bigint, bandwidth bigint, functions bigint,
        "jobRuns" bigint, "streamPeak" bigint)
    ), mine as (
      insert into svc.usage_streams as s (node, tenant_id, open)
      select ${node}::uuid, tenant, "streamPeak" from used
      on conflict (node, tenant_id) do update set open = excluded.open, at = now()
    ), counted as (
      insert into svc.usage_endpoints as e (tenant_id, hour, endpoint, status, requests)
      select tenant, ${hour}, endpoint, status, requests
      from json_to_recordset(${requests}::json) as a(tenant uuid, endpoint text, status integer, requests bigint)
      order by tenant, endpoint, status
      on conflict (hour, tenant_id, endpoint, status) do update set requests = e.requests + excluded.requests
    ), organizations as (
      insert into svc.usage_organizations as o (org_id, hour, requests, bandwidth, functions)
      select id, ${hour}, requests, bandwidth, functions
      from json_to_recordset(${ofOrganizations}::json) as g(id uuid, requests bigint, bandwidth bigint, functions bigint) order by id
      on conflict (hour, org_id) do update set requests = o.requests + excluded.requests,
        bandwidth = o.bandwidth + excluded.bandwidth, functions = o.functions + excluded.functions
    )
    insert into svc.usage_hours as h (tenant_id, hour, requests, bandwidth, functions, job_runs, realtime_peak)
    select u.tenant, ${hour}, u.requests, u.bandwidth, u.functions, u."jobRuns", u."streamPeak" + (
      select coalesce(sum(s.open), 0) from svc.usage_streams s
      where s.tenant_id = u.tenant and s.node <> ${node}::uuid and ${alive})
    from used u order by u.tenant
    on conflict (hour, tenant_id) do update set requests = h.requests + excluded.requests,
      bandwidth = h.bandwidth + excluded.bandwidth, functions = h.functions + excluded.functions,
      job_runs = h.job_runs + excluded.job_runs, realtime_peak = greatest(h.realtime_peak, excluded.realtime_peak)`
}

/** Bytes count for the app whose key stored them. */
const stored = sql`(
  select coalesce(a.id, ${NO_TENANT}::uuid) as tenant, sum(o.size)::bigint as bytes from svc.objects o
  left join svc.apps a on a.id = o.app_id group by 1)`

export const noteStorage: Sql = sql`
  insert into svc.usage_hours as h (tenant_id, hour, storage) select s.tenant, ${hour}, s.bytes from ${stored} s order by 1
  on conflict (hour, tenant_id) do update set storage = greatest(h.storage, excluded.storage)`

export const leave = (node: string): Sql => sql`delete from svc.usage_streams where node = ${node}::uuid`

const within = ({ from, to }: UsageRange): Sql =>
  sql`h.hour >= ${from}::date::timestamp at time zone 'UTC' and h.hour < (${to}::date + 1)::timestamp at time zone 'UTC'`

const tenants = sql`(select ${NO_TENANT}::uuid as id, 'default' as name union all select id, name from svc.apps)`

export const SORTS: Readonly<Record<string, Sql>> = {
  request_count: sql`"requestCount"`,
  storage_bytes: sql`"storageBytesUsed"`,
  bandwidth_bytes: sql`"bandwidthBytes"`,
  function_invocations: sql`"functionInvocations"`,
  realtime_peak_connections: sql`"realtimePeakConnections"`,
  job_runs: sql`"jobRuns"`,
  tenant_id: sql`"tenantId"`,
  tenant_name: sql`"tenantName"`,
}

export const usageList = (
  range: UsageRange,
  order: { by: Sql; isDescending: boolean },
  { limit, offset }: { limit: number; offset: number },
): Sql => sql`
  with figures as (
    select t.id as "tenantId", t.name as "tenantName", coalesce(sum(h.requests), 0)::bigint as "requestCount",
      coalesce(max(s.bytes), 0) as "storageBytesUsed", coalesce(sum(h.bandwidth), 0)::bigint as "bandwidthBytes",
      coalesce(sum(h.functions), 0)::bigint as "functionInvocations",
      coalesce(max(h.realtime_peak), 0) as "realtimePeakConnections", coalesce(sum(h.job_runs), 0)::bigint as "jobRuns"
    from ${tenants} t left join svc.usage_hours h on h.tenant_id = t.id and ${within(range)}
    left join ${stored} s on s.tenant = t.id
    group by t.id, t.name
  )
  select json_build_object('items', (select coalesce(json_agg(p.*), '[]') from (
      select * from figures order by ${order.by} ${order.isDescending ? sql`desc` : sql`asc`}, "tenantId"
      limit ${limit} offset ${offset}) p),
    'total', (select count(*) from figures), 'limit', ${limit}::int, 'offset', ${offset}::int)::text`

export const USAGE_METRICS: Readonly<Record<string, Sql>> = {
  api_requests: sql`sum(h.requests)`,
  storage_bytes: sql`max(h.storage)`,
  bandwidth_bytes: sql`sum(h.bandwidth)`,
  function_invocations: sql`sum(h.functions)`,
}

export const usageTrend = (range: UsageRange, metric: Sql, granularity: string): Sql => sql`
  select coalesce(json_agg(json_build_object('timestamp', svc.iso_utc(at), 'value', value) order by at), '[]')::text
  from (select at, sum(value)::bigint as value from (
      select date_trunc(${granularity}, h.hour, 'UTC') as at, h.tenant_id, ${metric}::bigint as value from svc.usage_hours h
      where ${within(range)} group by 1, 2) t group by 1) s`

export const breakdownByTenant = (range: UsageRange, metric: Sql, limit: number): Sql => sql`
  select coalesce(json_agg(json_build_object('key', key, 'value', value) order by value desc, key), '[]')::text
  from (select h.tenant_id::text as key, ${metric}::bigint as value from svc.usage_hours h
    where ${within(range)} group by 1 order by 2 desc, 1 limit ${limit}) s`

/** Requests of sessions and keys that act for an organisation. */
export const breakdownByOrganization = (range: UsageRange, metric: Sql, limit: number): Sql => sql`
  select coalesce(json_agg(json_build_object('key', key, 'value', value) order by value desc, key), '[]')::text
  from (select h.org_id::text as key, ${metric}::bigint as value from svc.usage_organizations h
    where ${within(range)} group by 1 order by 2 desc, 1 limit ${limit}) s`

export const breakdownOfRequests = (range: UsageRange, by: 'endpoint' | 'status_code', limit: number): Sql => sql`
  select coalesce(json_agg(json_build_object('key', key, 'value', value) order by value desc, key), '[]')::text
  from (select ${by === 'endpoint' ? sql`h.endpoint` : sql`h.status::text`} as key, sum(h.requests)::bigint as value
    from svc.usage_endpoints h where ${within(range)} group by 1 order by 2 desc, 1 limit ${limit}) s`

export const isTenant = (id: string): Sql =>
  sql`select exists (select from ${tenants} t where t.id = ${id}::uuid) as yes`

/** By day, with the sums of the four figures. */
export const usageOfTenant = (id: string, range: UsageRange): Sql => sql`
  with days as (
    select to_char(h.hour at time zone 'UTC', 'YYYY-MM-DD') as date, sum(h.requests)::bigint as "apiRequests",
      max(h.storage) as "storageBytesUsed", sum(h.bandwidth)::bigint as "bandwidthBytes",
      sum(h.functions)::bigint as "functionInvocations"
    from svc.usage_hours h where h.tenant_id = ${id}::uuid and ${within(range)} group by 1
  )
  select json_build_object('data', (select coalesce(json_agg(d.* order by d.date), '[]') from days d),
    'totals', json_build_object('apiRequests', coalesce((select sum("apiRequests") from days), 0),
      'storageBytesUsed', coalesce((select s.bytes from ${stored} s where s.tenant = ${id}::uuid), 0),
      'bandwidthBytes', coalesce((select sum("bandwidthBytes") from days), 0),
      'functionInvocations', coalesce((select sum("functionInvocations") from days), 0)))::text`
