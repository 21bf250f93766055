import * as t from '../../core/json-type.ts'
import { mergedSamples, type Sample } from '../../core/metrics.ts'
import { json, type Route, route } from '../../http/route.ts'

type FiguresDeps = {
  /** `metrics.enabled`: whether requests are counted. */
  isCounting: boolean
  samplesOfAll: () => Promise<Sample[][]>
  poolMax: () => number
}

const figures = t.object({
  at: t.time(),
  processes: t.integer(),
  requests: t.nullable(
    t.object({
      total: t.integer({ description: 'answered since the start, but for health, metrics and the admin’s own' }),
      errors: t.integer({ description: 'of them with a status of 500 and above' }),
      durations: t.array(
        t.object({
          seconds: t.nullable(t.number({ description: 'null: any time' })),
          count: t.integer({ description: 'requests that took at most so long' }),
        }),
      ),
    }),
  ),
  connections: t.object({ in_use: t.integer(), idle: t.integer(), max: t.integer() }),
  change_log_lag_seconds: t.number(),
  queues: t.object({ webhooks: t.integer(), jobs: t.integer() }),
  realtime_connections: t.integer(),
  memory_bytes: t.integer({ description: 'resident, of all processes' }),
})

/** What the operator’s own pages and probes ask for is no traffic. */
const isOwn = (path: string): boolean => /^(\/metrics|\/health|\/admin|\/api\/admin)(\/|$)/.test(path)

/** Figures of this moment; a page that reads them again and again draws rates from the differences. */
export function figuresRoute({ isCounting, samplesOfAll, poolMax }: FiguresDeps): Route {
  return route('GET /api/admin/figures', {
    summary: 'Requests, errors, times, connections and queues of this moment, over all processes',
    auth: 'admin',
    leastRole: 'viewer',
    answers: { 200: figures },
    handle: async () => {
      const all = await samplesOfAll()
      const merged = mergedSamples(all)
      const sum = (name: string, fits: (labels: string) => boolean = () => true): number =>
        [...(merged.get(name)?.values ?? [])].reduce(
          (total, [series, value]) => (fits(series) ? total + value : total),
          0,
        )
      const isOthers = (series: string): boolean => !isOwn(labelOf(series, 'route'))
      const state = (name: string) => (series: string) => labelOf(series, 'state') === name
      return json(200, {
        at: new Date().toISOString(),
        processes: all.length,
        requests: isCounting
          ? {
              total: sum('svc_http_requests_total', isOthers),
              errors: sum(
                'svc_http_requests_total',
                (series) => isOthers(series) && labelOf(series, 'status').startsWith('5'),
              ),
              durations: durationsOf(merged.get('svc_http_request_duration_seconds')?.values ?? new Map(), isOthers),
            }
          : null,
        connections: {
          in_use: sum('svc_db_pool_connections', state('in_use')),
          idle: sum('svc_db_pool_connections', state('idle')),
          max: poolMax() * all.length,
        },
        change_log_lag_seconds: sum('svc_change_log_lag_seconds'),
        queues: { webhooks: sum('svc_webhook_queue'), jobs: sum('svc_jobs', state('queued')) },
        realtime_connections: sum('svc_realtime_connections'),
        memory_bytes: sum('process_resident_memory_bytes') || process.memoryUsage.rss(),
      })
    },
  })
}

function durationsOf(values: ReadonlyMap<string, number>, fits: (series: string) => boolean) {
  const counts = new Map<string, number>()
  for (const [series, value] of values) {
    const bound = series.includes('_bucket{') ? labelOf(series, 'le') : ''
    if (bound !== '' && fits(series)) counts.set(bound, (counts.get(bound) ?? 0) + value)
  }
  return [...counts].map(([bound, count]) => ({ seconds: bound === '+Inf' ? null : Number(bound), count }))
}

/** Of patterns, methods and states, none of which has a quote. */
const labelOf = (series: string, name: string): string => new RegExp(`[{,]${name}="([^"]*)"`).exec(series)?.[1] ?? ''
