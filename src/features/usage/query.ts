import { badRequest } from '../../core/errors.ts'
import { limitOf } from '../../core/page.ts'
import type { Sql } from '../../db/sql.ts'
import { SORTS, USAGE_METRICS, type UsageRange } from './sql.ts'

type Query = Readonly<Record<string, string | undefined>>

const DAYS: ReadonlyMap<string, number> = new Map([
  ['day', 1],
  ['week', 7],
  ['month', 30],
])
const DAY_MS = 86_400_000

/** First and last day, both included; a `period` ends today. */
export function usageRange(query: Query, now: number): UsageRange & { period: string } {
  const { from, to, period = 'month' } = query
  if (from !== undefined || to !== undefined) {
    if (!isDate(from) || !isDate(to) || from > to) throw badRequest('invalid date range')
    return { from, to, period: query['period'] ?? 'custom' }
  }
  const days = DAYS.get(period)
  if (days === undefined) throw badRequest('invalid period')
  const date = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
  return { from: date(now - (days - 1) * DAY_MS), to: date(now), period }
}

function isDate(text: string | undefined): text is string {
  if (text === undefined || !/^\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const parsed = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(parsed.getTime()) && parsed.toISOString().startsWith(text)
}

export function orderOf({ sort }: Query): { by: Sql; isDescending: boolean } {
  if (sort === undefined || sort === '') return { by: sortNamed('request_count'), isDescending: true }
  return { by: sortNamed(sort.trim().replace(/^[+-]/, '')), isDescending: sort.startsWith('-') }
}

function sortNamed(name: string): Sql {
  const found = Object.hasOwn(SORTS, name) ? SORTS[name] : undefined
  if (!found) throw badRequest('invalid sort')
  return found
}

const MAX_LIMIT = 500

export function usageWindow(query: Query): { limit: number; offset: number } {
  if (Number(query['limit']) > MAX_LIMIT) throw badRequest('invalid limit')
  return limitOf(query, { limit: 50, maxLimit: MAX_LIMIT })
}

export function metricOf({ metric }: Query): { name: string; sum: Sql } {
  if (metric === undefined || metric === '') throw badRequest('metric is required')
  const sum = Object.hasOwn(USAGE_METRICS, metric) ? USAGE_METRICS[metric] : undefined
  if (!sum) throw badRequest('invalid metric')
  return { name: metric, sum }
}

export function granularityOf({ granularity = 'day' }: Query, metric: string): string {
  const isKnown =
    ['day', 'week', 'month'].includes(granularity) || (granularity === 'hour' && metric === 'api_requests')
  if (!isKnown) throw badRequest('invalid granularity')
  return granularity
}

type UsageGroup = 'tenant' | 'endpoint' | 'status_code' | 'organization'

export function groupOf({ group_by: group = 'tenant' }: Query, metric: string): UsageGroup {
  if (group === 'tenant') return group
  if ((group === 'endpoint' || group === 'status_code') && metric === 'api_requests') return group
  // Files belong to accounts and apps.
  if (group === 'organization' && metric !== 'storage_bytes') return group
  throw badRequest('invalid group_by')
}
