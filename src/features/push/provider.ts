import type { Observe } from '../../core/observe.ts'

export type PushMessage = {
  /** The delivery's id, the same in every attempt. */
  readonly id: string
  readonly token: string
  readonly title: string
  readonly body: string
  readonly data: Readonly<Record<string, string>>
}

/** `code` and `message` are the service's own. */
export type PushOutcome =
  | { kind: 'sent'; messageId: string | undefined }
  /** The device token is no longer valid. */
  | { kind: 'invalid'; code: string; message: string }
  /** Permanent; not retried. */
  | { kind: 'refused'; code: string; message: string }
  | { kind: 'failed'; code: string; message: string; retryAfter?: number | undefined }

/** Never throws; failures are outcomes too. */
export type PushProvider = {
  send(message: PushMessage): Promise<PushOutcome>
  stop?(): void
}

/** Logs instead of sending, for a service without credentials. */
export const logProvider = (observe: Observe): PushProvider => ({
  async send({ id, title }) {
    observe({ message: 'push notification', attrs: { delivery: id, title } })
    return { kind: 'sent', messageId: undefined }
  },
})
