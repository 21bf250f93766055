import { useEffect, useState } from 'react'
import { send } from '../../api/client.ts'
import { session } from '../../api/session.ts'

export type Sample = { name: string; labels: ReadonlyMap<string, string>; value: number }

/** The Prometheus text, line by line. */
function parseMetrics(text: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const found = /^([a-z_]+)(?:\{(.*)\})? ([-+\w.]+)$/i.exec(line)
    if (!found) return []
    const labels = new Map(
      [...(found[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name = '', value = '']) => [name, value]),
    )
    return [{ name: found[1] ?? '', labels, value: Number(found[3]) }]
  })
}

export type Figures = { time: number; perSecond: number; errors: number; p50: number | null; p95: number | null }
export type Gauges = {
  inUse: number
  idle: number
  lag: number
  webhooks: number
  jobs: number
  realtime: number
  memory: number
}
type Totals = { at: number; requests: number; errors: number; buckets: Map<number, number> }

const sum = (samples: readonly Sample[], name: string, fits: (sample: Sample) => boolean = () => true): number =>
  samples.filter((sample) => sample.name === name && fits(sample)).reduce((total, { value }) => total + value, 0)

// What the page itself asks for is no traffic.
const OWN = new Set(['/metrics', '/health', '/api/admin/status'])

function totalsOf(samples: readonly Sample[]): Totals {
  const isOthers = ({ labels }: Sample): boolean => !OWN.has(labels.get('route') ?? '')
  const buckets = new Map<number, number>()
  for (const sample of samples) {
    if (sample.name !== 'svc_http_request_duration_seconds_bucket' || !isOthers(sample)) continue
    const edge = Number((sample.labels.get('le') ?? '').replace('+Inf', 'Infinity'))
    buckets.set(edge, (buckets.get(edge) ?? 0) + sample.value)
  }
  return {
    at: performance.now(),
    requests: sum(samples, 'svc_http_requests_total', isOthers),
    errors: sum(
      samples,
      'svc_http_requests_total',
      (sample) => isOthers(sample) && (sample.labels.get('status') ?? '').startsWith('5'),
    ),
    buckets,
  }
}

/** The milliseconds within which a share of the requests between two readings were answered. */
function quantile(before: Totals, now: Totals, share: number): number | null {
  const edges = [...now.buckets.keys()].sort((a, b) => a - b)
  const added = edges.map((edge) => (now.buckets.get(edge) ?? 0) - (before.buckets.get(edge) ?? 0))
  const all = added.at(-1) ?? 0
  if (all <= 0) return null
  const at = added.findIndex((value) => value >= all * share)
  const edge = edges[at] ?? 0
  const low = at > 0 ? (edges[at - 1] ?? 0) : 0
  const below = at > 0 ? (added[at - 1] ?? 0) : 0
  const inside = (added[at] ?? 0) - below
  const high = Number.isFinite(edge) ? edge : low
  return (low + (high - low) * (inside > 0 ? (all * share - below) / inside : 1)) * 1000
}

const KEPT = 150
const EVERY_MS = 2_000

/** Live figures, read from /metrics while the page is open. */
export function useFigures(): { figures: readonly Figures[]; gauges: Gauges | null; error: unknown } {
  const { id } = session.use()
  const [figures, setFigures] = useState<readonly Figures[]>([])
  const [gauges, setGauges] = useState<Gauges | null>(null)
  const [error, setError] = useState<unknown>(null)
  useEffect(() => {
    let before: Totals | null = null
    let isOver = false
    async function read(): Promise<void> {
      const samples = parseMetrics(await send<string>('GET', '/metrics', {}, { retry: 0 }))
      if (isOver) return
      const now = totalsOf(samples)
      const last = before
      if (last) {
        const seconds = (now.at - last.at) / 1000
        const next = {
          time: Date.now() / 1000,
          perSecond: Math.max(0, now.requests - last.requests) / seconds,
          errors: Math.max(0, now.errors - last.errors) / seconds,
          p50: quantile(last, now, 0.5),
          p95: quantile(last, now, 0.95),
        }
        setFigures((all) => [...all.slice(1 - KEPT), next])
      }
      before = now
      const state = (name: string) => (sample: Sample) => sample.labels.get('state') === name
      setGauges({
        inUse: sum(samples, 'svc_db_pool_connections', state('in_use')),
        idle: sum(samples, 'svc_db_pool_connections', state('idle')),
        lag: sum(samples, 'svc_change_log_lag_seconds'),
        webhooks: sum(samples, 'svc_webhook_queue'),
        jobs: sum(samples, 'svc_jobs', state('queued')),
        realtime: sum(samples, 'svc_realtime_connections'),
        memory: sum(samples, 'process_resident_memory_bytes'),
      })
      setError(null)
    }
    const tick = (): void => {
      if (document.visibilityState === 'visible') read().catch(setError)
    }
    tick()
    const timer = setInterval(tick, EVERY_MS)
    return () => {
      isOver = true
      clearInterval(timer)
    }
  }, [id])
  return { figures, gauges, error }
}
