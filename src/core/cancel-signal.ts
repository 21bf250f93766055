/**
 * Fires when the client disconnects. An AbortSignal fits; requests have a cheaper implementation, because every request
 * needs one and few are cancelled.
 */
export type CancelSignal = {
  readonly aborted: boolean
  addEventListener(event: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(event: 'abort', listener: () => void): void
}
