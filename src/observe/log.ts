import { fanOut, type Level, type Observation, type Observe } from '../core/observe.ts'
import { redact } from '../core/redact.ts'
import { jsonLine, textLine } from './lines.ts'
import { createRing, type LogEntry } from './ring.ts'
import { createLineWriter } from './writer.ts'

export type LogConfig = { level: Level; format: 'json' | 'text'; buffer_size: number }

export type Log = {
  observe: Observe
  /** Oldest first; the entries of /api/admin/logs. */
  entries(): LogEntry[]
  flush(): void
}

const RANK: Record<Level, number> = { debug: 0, info: 1, warn: 2, error: 3 }

/** What the server says goes to stdout and to the ring buffer; stderr is kept for the sentence of a failed start. */
export function createLog(config: LogConfig, stream = process.stdout): Log {
  const ring = createRing(config.buffer_size)
  const writer = createLineWriter(stream, config.format === 'text' ? textLine : jsonLine)
  process.once('exit', writer.flushNow)
  return {
    observe: filtered(config.level, fanOut(writer.sink, ring.sink)),
    entries: ring.entries,
    flush: writer.flush,
  }
}

/** For servers that print nothing, such as those in tests. */
export function createQuietLog(config: LogConfig): Log {
  const ring = createRing(config.buffer_size)
  return { observe: filtered(config.level, ring.sink), entries: ring.entries, flush() {} }
}

const filtered =
  (level: Level, sink: Observe): Observe =>
  (observation) => {
    if (RANK[observation.level] >= RANK[level]) sink(observation.verbatim ? observation : redacted(observation))
  }

/** Copies only when there is something to hide. */
export function redacted(observation: Observation): Observation {
  let { attrs } = observation
  for (const name in attrs) {
    const value = attrs[name]
    if (typeof value !== 'string') continue
    const safe = redact(value)
    if (safe !== value) attrs = { ...attrs, [name]: safe }
  }
  const message = redact(observation.message)
  return attrs === observation.attrs && message === observation.message
    ? observation
    : { ...observation, message, ...(attrs && { attrs }) }
}
