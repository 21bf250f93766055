import { fanOut, type LogEntry, type LogLevel, levelOf, type Observe } from '../../core/observe.ts'
import { redact } from '../../core/redact.ts'
import { colourLine, jsonLine, type LogFormat, textLine } from './lines.ts'
import { createRing } from './ring.ts'
import { createLineWriter } from './writer.ts'

export type LogConfig = { level: LogLevel; format: 'auto' | 'json' | 'text'; buffer_size: number }

export type Log = {
  observe: Observe
  /** Oldest first; the entries of /api/admin/logs. */
  entries(): LogEntry[]
  flush(): void
}

const RANK: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 }

/** Writes observations to stdout and to the ring buffer; stderr is only for the reason of a failed start. */
export function createLog(config: LogConfig, stream = process.stdout): Log {
  const ring = createRing(config.buffer_size)
  const format = formatOf(config.format, stream.isTTY === true)
  // Masking the finished line is several times faster than masking each value.
  const writer = createLineWriter(stream, (observation, at) => {
    const line = format(observation, at)
    return observation.verbatim ? line : redact(line)
  })
  process.once('exit', writer.flushNow)
  return {
    observe: filtered(config.level, fanOut(writer.sink, ring.sink)),
    entries: ring.entries,
    flush: writer.flush,
  }
}

function formatOf(format: LogConfig['format'], isTerminal: boolean): LogFormat {
  if (format === 'json' || (format === 'auto' && !isTerminal)) return jsonLine
  // https://no-color.org
  return isTerminal && !process.env['NO_COLOR'] ? colourLine : textLine
}

const filtered =
  (level: LogLevel, sink: Observe): Observe =>
  (observation) => {
    if (RANK[levelOf(observation)] >= RANK[level]) sink(observation)
  }
