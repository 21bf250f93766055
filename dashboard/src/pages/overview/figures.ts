import { useEffect, useState } from 'react'
import { send } from '../../api/client.ts'
import { session } from '../../api/session.ts'

type Answer = {
  requests: { total: number; errors: number; durations: { seconds: number | null; count: number }[] } | null
  connections: { in_use: number; idle: number; max: number }
  change_log_lag_seconds: number
  queues: { webhooks: number; jobs: number }
  realtime_connections: number
  memory_bytes: number
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

const totalsOf = ({ requests }: Answer): Totals => ({
  at: performance.now(),
  requests: requests?.total ?? 0,
  errors: requests?.errors ?? 0,
  buckets: new Map(requests?.durations.map(({ seconds, count }) => [seconds ?? Number.POSITIVE_INFINITY, count])),
})

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

/** Live figures, read again and again while the page is open. */
export function useFigures(): { figures: readonly Figures[]; gauges: Gauges | null; error: unknown } {
  const { id } = session.use()
  const [figures, setFigures] = useState<readonly Figures[]>([])
  const [gauges, setGauges] = useState<Gauges | null>(null)
  const [error, setError] = useState<unknown>(null)
  useEffect(() => {
    let before: Totals | null = null
    let isOver = false
    async function read(): Promise<void> {
      const answer = await send<Answer>('GET', '/api/admin/figures', {}, { retry: 0 })
      if (isOver) return
      const now = totalsOf(answer)
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
      setGauges({
        inUse: answer.connections.in_use,
        idle: answer.connections.idle,
        lag: answer.change_log_lag_seconds,
        webhooks: answer.queues.webhooks,
        jobs: answer.queues.jobs,
        realtime: answer.realtime_connections,
        memory: answer.memory_bytes,
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
