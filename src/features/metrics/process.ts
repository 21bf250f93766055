import { readdirSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Metrics } from '../../core/metrics.ts'

const NANOSECONDS = 1e9
const MICROSECONDS = 1e6

/** Figures of the process, under the names common to Prometheus clients. */
export function measureProcess(metrics: Metrics): { stop(): void } {
  const delay = monitorEventLoopDelay({ resolution: 20 })
  delay.enable()
  const startedAt = Date.now() / 1000 - process.uptime()
  metrics.gauge('process_start_time_seconds', 'Start of the process, unix time.', [], () => startedAt)
  metrics.gauge('process_cpu_seconds_total', 'Processor time spent.', ['mode'], () => {
    const { user, system } = process.cpuUsage()
    return [
      { labels: ['user'], value: user / MICROSECONDS },
      { labels: ['system'], value: system / MICROSECONDS },
    ]
  })
  metrics.gauge('process_resident_memory_bytes', 'Resident memory.', [], () => process.memoryUsage.rss())
  metrics.gauge('nodejs_heap_used_bytes', 'Heap in use.', [], () => process.memoryUsage().heapUsed)
  metrics.gauge('nodejs_eventloop_lag_seconds', 'Delay of the event loop since the last reading.', ['quantile'], () => {
    const shown = [50, 99, 100].map((quantile) => ({
      labels: [String(quantile / 100)],
      // An empty histogram returns meaningless percentiles.
      value: delay.count === 0 ? 0 : delay.percentile(quantile) / NANOSECONDS,
    }))
    delay.reset()
    return shown
  })
  metrics.gauge('process_open_fds', 'Open file descriptors; 0 where the system does not tell.', [], openFiles)
  return { stop: () => delay.disable() }
}

function openFiles(): number {
  try {
    return readdirSync('/proc/self/fd').length
  } catch {
    return 0
  }
}
