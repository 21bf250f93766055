import { notFound, unauthorized } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import { exposition, type Metrics, type Sample } from '../../core/metrics.ts'
import { equalInConstantTime } from '../../core/secret.ts'
import { type Route, requireEnabled, route } from '../../http/route.ts'
import { figuresRoute } from './figures.ts'
import { measureProcess } from './process.ts'

export type MetricsDeps = {
  metrics: Metrics
  /** The metrics of every process of this server. */
  samplesOfAll: () => Promise<Sample[][]>
  config: { enabled: boolean; auth_token: string }
  resolveAdmin: (token: string) => Promise<Identity | undefined>
  poolStats: () => { idle: number; inUse: number; max: number; open: number }
  /** Password hashes that wait for a free worker. */
  hashQueue: () => number
}

export type RequestDone = (method: string, route: string, status: number, milliseconds: number) => void

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export function createMetricsFeature(deps: MetricsDeps): { routes: Route[]; requestDone: RequestDone; stop(): void } {
  const { metrics, config } = deps
  const measured = config.enabled ? measureProcess(metrics) : undefined
  const requests = metrics.counter('svc_http_requests_total', 'Requests answered.', ['method', 'route', 'status'])
  const durations = metrics.histogram(
    'svc_http_request_duration_seconds',
    'Time from the request to the end of its answer.',
    ['method', 'route'],
    SECONDS,
  )
  metrics.gauge('svc_db_pool_connections', 'Connections of the pool.', ['state'], () => {
    const { idle, inUse } = deps.poolStats()
    return [
      { labels: ['idle'], value: idle },
      { labels: ['in_use'], value: inUse },
    ]
  })
  const open = 'Connections to PostgreSQL, of the pool and of everything beside it.'
  metrics.gauge('svc_db_connections', open, [], () => deps.poolStats().open)
  metrics.gauge('svc_hash_queue', 'Password hashes that wait for a free worker.', [], deps.hashQueue)

  async function admit(authorization: string | undefined): Promise<void> {
    const token = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1]
    if (token !== undefined) {
      if (config.auth_token !== '' && equalInConstantTime(token, config.auth_token)) return
      if (await deps.resolveAdmin(token)) return
    }
    throw unauthorized('admin authentication required', 'admin_required')
  }

  return {
    routes: [
      figuresRoute({
        isCounting: config.enabled,
        samplesOfAll: deps.samplesOfAll,
        poolMax: () => deps.poolStats().max,
      }),
      // `none`, because the bearer may be `metrics.auth_token`, which only this route checks.
      route('GET /metrics', {
        summary: 'Figures for Prometheus; takes the admin token or `metrics.auth_token`',
        auth: 'none',
        requires: requireEnabled(config.enabled, () => notFound('metrics are not enabled', 'feature_disabled')),
        answers: { 200: { content: 'text/plain' } },
        handle: async ({ headers }) => {
          await admit(headers['authorization'])
          const content = exposition(await deps.samplesOfAll())
          return { status: 200, headers: { 'Content-Type': CONTENT_TYPE }, content }
        },
      }),
    ],
    stop: () => measured?.stop(),
    requestDone: config.enabled
      ? (method, pattern, status, milliseconds) => {
          requests.add([method, pattern, String(status)])
          durations.record([method, pattern], milliseconds / 1000)
        }
      : () => {},
  }
}
