import type { CancelSignal } from '../../core/cancel-signal.ts'
import { AppError } from '../../core/errors.ts'
import { lockedOut } from '../pg-errors.ts'
import { LOCK_TIMEOUT_MS } from './session.ts'

/**
 * Writes to one row, one after the other. PostgreSQL lets no two of them at it anyway; but what waits there holds a
 * connection, and writes to other rows soon find none. See docs/decisions/0105-turns.md.
 */
export class RowTurns {
  /** Row that is being written → those who wait for it. */
  readonly #waiting = new Map<string, (() => void)[]>()

  /** Runs `write` when nobody else of this process writes to the row. */
  async take<T>(row: string, cancelSignal: CancelSignal | undefined, write: () => Promise<T>): Promise<T> {
    const waiting = this.#waiting.get(row)
    if (waiting) await turnOf(waiting, cancelSignal)
    else this.#waiting.set(row, [])
    try {
      return await write()
    } finally {
      const next = this.#waiting.get(row)?.shift()
      if (next) next()
      else this.#waiting.delete(row)
    }
  }
}

/** As patient as PostgreSQL is with a lock. */
function turnOf(waiting: (() => void)[], cancelSignal: CancelSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = (): void => {
      clearTimeout(patience)
      cancelSignal?.removeEventListener('abort', left)
    }
    const begin = (): void => {
      over()
      resolve()
    }
    const giveUp = (error: AppError): void => {
      over()
      waiting.splice(waiting.indexOf(begin), 1)
      reject(error)
    }
    const left = (): void => giveUp(new AppError('request_timeout', 'request was aborted'))
    const patience = setTimeout(() => giveUp(lockedOut()), LOCK_TIMEOUT_MS)
    cancelSignal?.addEventListener('abort', left, { once: true })
    waiting.push(begin)
  })
}
