import type { ServerResponse } from 'node:http'
import { Budget, type BudgetLimits } from '../../core/limits.ts'

export type ReadingPace = {
  readonly graceMs: number
  readonly bytesPerSecond: number
  readonly streamBytesPerSecond: number
}

/** Limits responses that clients have not read yet. A client that reads too slowly is disconnected. */
export class UnsentResponses {
  readonly #budget: Budget
  readonly #pace: ReadingPace

  constructor(limits: BudgetLimits, pace: ReadingPace) {
    this.#budget = new Budget(limits)
    this.#pace = pace
  }

  /** Watches a response that was written but not sent at once. */
  watch(response: ServerResponse, address: string, bytes: number): void {
    // The client is gone, so no `close` event will follow.
    if (response.destroyed || response.closed) return
    const end = (): void => void response.socket?.destroy()
    const timer = setTimeout(end, this.#pace.graceMs + (bytes / this.#pace.bytesPerSecond) * 1000).unref()
    const reservation = this.#budget.reserve(address, end)
    response.once('close', () => {
      clearTimeout(timer)
      reservation.release()
    })
    reservation.grow(bytes)
  }

  /** Watches a stream of unknown length: in each window that starts and ends with a backlog the client must read enough. */
  watchStream(response: ServerResponse): void {
    const { graceMs, streamBytesPerSecond } = this.#pace
    let before: number | undefined
    const timer = setInterval(() => {
      const { socket } = response
      if (!socket) return
      const taken = socket.writableLength > 0 ? socket.bytesWritten - socket.writableLength : undefined
      const moved = taken === undefined || before === undefined ? Number.POSITIVE_INFINITY : taken - before
      if (moved < (graceMs / 1000) * streamBytesPerSecond) socket.destroy()
      before = taken
    }, graceMs).unref()
    response.once('close', () => clearInterval(timer))
  }
}
