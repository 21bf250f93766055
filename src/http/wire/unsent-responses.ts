import type { ServerResponse } from 'node:http'
import { Budget, type BudgetLimits } from '../../core/limits.ts'

export type ReadingPace = {
  readonly graceMs: number
  readonly bytesPerSecond: number
  readonly streamBytesPerSecond: number
}

/** Answers that wait for their readers. A reader who stops, or takes a byte now and then, loses the connection. */
export class UnsentResponses {
  readonly #budget: Budget
  readonly #pace: ReadingPace

  constructor(limits: BudgetLimits, pace: ReadingPace) {
    this.#budget = new Budget(limits)
    this.#pace = pace
  }

  /** Of an answer that has been written and did not leave at once. */
  watch(response: ServerResponse, address: string, bytes: number): void {
    // The reader has left already, and nothing will tell again.
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

  /** Of a stream, whose length nobody knows: in every window that began and ended with a backlog some of it was taken. */
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
