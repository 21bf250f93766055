export type Level = 'debug' | 'info' | 'warn' | 'error'

/** Everything the server has to say, as data. Log lines, counters and /api/admin/logs are readers of it. */
export type Observation = {
  level: Level
  /** Short and constant, e.g. `schema reloaded`; what varies goes into attrs. */
  message: string
  /** Never bodies, bearers, passwords or tokens. */
  attrs?: Readonly<Record<string, string | number | boolean | null | undefined>>
  /** Not masked: the development backends of mail and SMS exist to show a link or a code. */
  verbatim?: true
}
/** As GET /api/admin/logs shows it. */
export type LogEntry = { time: string; level: string; message: string; attrs?: Observation['attrs'] }

export type Observe = (observation: Observation) => void

export const fanOut =
  (...sinks: Observe[]): Observe =>
  (observation) => {
    for (const sink of sinks) sink(observation)
  }
