import type { Metrics } from './metrics.ts'
import { type ObservedMessage, observations } from './observations.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** One event of the server. Log lines, counters and /api/admin/logs are made from these. */
export type Observation = {
  /** One of the catalogue; what varies goes into attrs. */
  message: ObservedMessage
  /** Default: the level of the catalogue. */
  level?: LogLevel
  /** Never bodies, bearers, passwords or tokens. */
  attrs?: Readonly<Record<string, string | number | boolean | null | undefined>>
  /** Not masked on standard output: the development backends of mail and SMS exist to show a link or a code. */
  verbatim?: true
}
/** One entry of GET /api/admin/logs. */
export type LogEntry = {
  /** Of its process, and its number there. */
  id: string
  time: string
  level: string
  message: string
  attrs?: Observation['attrs']
}

export type Observe = (observation: Observation) => void

export const levelOf = ({ level, message }: Observation): LogLevel => level ?? observations[message]

/** A sentence for the operator about the configuration or the keys; GET /api/admin/status shows it too. */
export const operatorWarning = (sentence: string): Observation => ({
  level: 'warn',
  message: sentence as ObservedMessage,
})

/** Counts warnings and errors by message. Messages come from a fixed list, so the label is bounded. */
export function countWarnings(metrics: Metrics): Observe {
  const events = metrics.counter('svc_log_events_total', 'Warnings and errors observed.', ['level', 'message'])
  return (observation) => {
    const level = levelOf(observation)
    if (level !== 'warn' && level !== 'error') return
    const { message } = observation
    events.add([level, Object.hasOwn(observations, message) ? message : 'operator warning'])
  }
}

export const fanOut =
  (...sinks: Observe[]): Observe =>
  (observation) => {
    for (const sink of sinks) sink(observation)
  }
