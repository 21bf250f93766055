/**
 * Tells when somebody went away, so that their work need not be finished. An AbortSignal is one; requests have a
 * lighter one, because each of them needs it and hardly any uses it.
 */
export type Departure = {
  readonly aborted: boolean
  addEventListener(event: 'abort', heard: () => void, options?: { once?: boolean }): void
  removeEventListener(event: 'abort', heard: () => void): void
}
