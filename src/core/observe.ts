import type { Metrics } from './metrics.ts'
import { type ObservedMessage, observations } from './observations.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** Everything the server has to say, as data. Log lines, counters and /api/admin/logs are readers of it. */
export type Observation = {
  /** Short and constant, one of the catalogue; what varies goes into attrs. */
  message: ObservedMessage
  /** Where this one is more or less than the catalogue's. */
  level?: LogLevel
  /** Never bodies, bearers, passwords or tokens. */
  attrs?: Readonly<Record<string, string | number | boolean | null | undefined>>
  /** Not masked: the development backends of mail and SMS exist to show a link or a code. */
  verbatim?: true
}
/** As GET /api/admin/logs shows it. */
export type LogEntry = { time: string; level: string; message: string; attrs?: Observation['attrs'] }

export type Observe = (observation: Observation) => void

export const levelOf = ({ level, message }: Observation): LogLevel => level ?? observations[message]

/** A sentence for the operator about the configuration or the keys, which GET /api/admin/status tells too. */
export const operatorWarning = (sentence: string): Observation => ({
  level: 'warn',
  message: sentence as ObservedMessage,
})

/** Warnings and errors by their words, of which there is a list; requests have counters of their own. */
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
