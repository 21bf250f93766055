import { writeSync } from 'node:fs'
import type { Observation, Observe } from '../../core/observe.ts'
import type { LogFormat } from './lines.ts'

const FLUSH_AFTER_MS = 50
const FLUSH_AT_LINES = 256
/** A reader that stopped reading must cost lines, not the server's memory. */
const MAX_UNREAD_BYTES = 8 * 1024 * 1024

export type LineWriter = { sink: Observe; flush(): void; flushNow(): void }

/**
 * Lines are collected, then made and written together: a write for each would cost more than many requests do, and
 * making hundreds in a row costs a fraction of making each between two requests.
 */
export function createLineWriter(
  stream: NodeJS.WriteStream & { fd: number },
  format: LogFormat,
  now: () => number = Date.now,
): LineWriter {
  let waiting: { observation: Observation; at: number }[] = []
  let timer: NodeJS.Timeout | undefined
  let dropped = 0
  stream.on('error', () => {}) // the reader is gone; there is nobody left to tell

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    if (waiting.length === 0) return
    if (stream.writableLength > MAX_UNREAD_BYTES) {
      dropped += waiting.length
      waiting = []
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
    for (const { observation, at } of waiting) text += format(observation, at)
    waiting = []
    return text
  }

  return {
    sink(observation) {
      waiting.push({ observation, at: now() })
      if (waiting.length >= FLUSH_AT_LINES) flush()
      else timer ??= setTimeout(flush, FLUSH_AFTER_MS).unref()
    },
    flush,
    /** For the end of the process, when streams no longer write. */
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
