import { writeSync } from 'node:fs'
import type { Observation, Observe } from '../../core/observe.ts'
import type { LogFormat } from './lines.ts'

const FLUSH_AFTER_MS = 50
const FLUSH_AT_LINES = 256
/** Above this, lines are dropped instead of filling the memory. */
const MAX_UNREAD_BYTES = 8 * 1024 * 1024

export type LineWriter = { sink: Observe; flush(): void; flushNow(): void }

/**
 * Formats and writes lines in batches: a write per line would cost more than many requests, and formatting hundreds in a
 * row is several times faster than one at a time.
 */
export function createLineWriter(
  stream: NodeJS.WriteStream & { fd: number },
  format: LogFormat,
  now: () => number = Date.now,
): LineWriter {
  let pending: { observation: Observation; at: number }[] = []
  let timer: NodeJS.Timeout | undefined
  let dropped = 0
  stream.on('error', () => {}) // the reader is gone

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    if (pending.length === 0) return
    if (stream.writableLength > MAX_UNREAD_BYTES) {
      dropped += pending.length
      pending = []
      return
    }
    stream.write(takeLines())
  }

  function takeLines(): string {
    let text = ''
    if (dropped > 0) {
      const attrs = { lines: dropped }
      text += format({ message: 'log lines dropped: nobody read them', attrs }, now())
      dropped = 0
    }
    for (const { observation, at } of pending) text += format(observation, at)
    pending = []
    return text
  }

  return {
    sink(observation) {
      pending.push({ observation, at: now() })
      if (pending.length >= FLUSH_AT_LINES) flush()
      else timer ??= setTimeout(flush, FLUSH_AFTER_MS).unref()
    },
    flush,
    /** Writes synchronously, for the end of the process, when streams no longer write. */
    flushNow() {
      clearTimeout(timer)
      timer = undefined
      const rest = Buffer.from(takeLines())
      let written = 0
      for (let tries = 0; written < rest.length && tries < 100; tries++) {
        try {
          written += writeSync(stream.fd, rest, written)
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return
        }
      }
    },
  }
}
