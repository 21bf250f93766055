import { writeSync } from 'node:fs'
import type { Observe } from '../core/observe.ts'
import type { Format } from './lines.ts'

const FLUSH_AFTER_MS = 50
const FLUSH_AT_CHARS = 64 * 1024
/** A reader that stopped reading must cost lines, not the server's memory. */
const MAX_UNREAD_BYTES = 8 * 1024 * 1024

export type LineWriter = { sink: Observe; flush(): void; flushNow(): void }

/** Lines are collected and written together, because a write for each would cost more than many requests do. */
export function createLineWriter(
  stream: NodeJS.WriteStream & { fd: number },
  format: Format,
  now: () => number = Date.now,
): LineWriter {
  let pending = ''
  let timer: NodeJS.Timeout | undefined
  let dropped = 0
  stream.on('error', () => {}) // the reader is gone; there is nobody left to tell

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    if (pending === '') return
    if (stream.writableLength > MAX_UNREAD_BYTES) {
      dropped += pending.split('\n').length - 1
    } else {
      if (dropped > 0) {
        const attrs = { lines: dropped }
        pending = format({ level: 'warn', message: 'log lines dropped: nobody read them', attrs }, now()) + pending
        dropped = 0
      }
      stream.write(pending)
    }
    pending = ''
  }

  return {
    sink(observation) {
      pending += format(observation, now())
      if (pending.length >= FLUSH_AT_CHARS) flush()
      else timer ??= setTimeout(flush, FLUSH_AFTER_MS).unref()
    },
    flush,
    /** For the end of the process, when streams no longer write. */
    flushNow() {
      clearTimeout(timer)
      timer = undefined
      const rest = Buffer.from(pending)
      pending = ''
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
