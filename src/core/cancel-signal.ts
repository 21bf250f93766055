/**
 * Fires when the client is gone, so that its work need not be finished. An AbortSignal is one; requests have a lighter
 * implementation, because every request needs one and few are ever cancelled.
 */
export type CancelSignal = {
  readonly aborted: boolean
  addEventListener(event: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(event: 'abort', listener: () => void): void
}
