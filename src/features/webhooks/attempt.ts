import { reasonOf } from '../../core/errors.ts'
import type { Outgoing } from '../../http/out/outgoing.ts'
import { retryAfterOf } from '../../http/out/retry-after.ts'
import { signatureHeaders } from '../../http/out/webhook-signature.ts'

export type WebhookMessage = {
  deliveryId: string
  eventId: string
  action: string
  body: string
  /** The traceparent of the request that it reports. */
  trace?: string
}
/** `secret` decrypts it, and throws if that fails. */
export type Receiver = { url: string; secret: () => string | undefined }
export type DeliveryOutcome = {
  success: boolean
  statusCode: number | undefined
  durationMs: number
  error: string | undefined
  responseBody: string
  /** Seconds, from a Retry-After header. */
  retryAfter: number | undefined
}

const TIMEOUT_MS = 10_000
const MAX_RESPONSE_BYTES = 65_536

/** One POST. Never throws; failures are outcomes too. */
export async function attempt(
  deps: { outgoing: Outgoing; version: string; now: () => number },
  hook: Receiver,
  { deliveryId, eventId, action, body, trace }: WebhookMessage,
  signal?: AbortSignal,
): Promise<DeliveryOutcome> {
  const timestamp = Math.floor(deps.now() / 1000)
  const startedAt = performance.now()
  const durationMs = (): number => Math.round(performance.now() - startedAt)
  try {
    const secret = hook.secret()
    const answer = await deps.outgoing.request({
      method: 'POST',
      url: hook.url,
      headers: {
        'Content-Type': 'application/json',
        'User-Agent': `Savanna/${deps.version}`,
        'X-SVC-Event': action,
        'X-SVC-Delivery': deliveryId,
        'webhook-id': eventId,
        'webhook-timestamp': String(timestamp),
        ...(secret !== undefined && signatureHeaders(secret, { id: eventId, timestamp, body })),
      },
      body,
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_RESPONSE_BYTES,
      cause: trace,
      ...(signal && { signal }),
    })
    const success = answer.status >= 200 && answer.status < 300
    return {
      success,
      statusCode: answer.status,
      durationMs: durationMs(),
      error: success ? undefined : `receiver answered ${answer.status}`,
      responseBody: answer.body,
      retryAfter: retryAfterOf(answer.headers['retry-after'], deps.now()),
    }
  } catch (error) {
    return {
      success: false,
      statusCode: undefined,
      durationMs: durationMs(),
      error: reasonOf(error),
      responseBody: '',
      retryAfter: undefined,
    }
  }
}

/** At most `maxBytes` of UTF-8, cut between characters, and without NUL, which PostgreSQL cannot store. */
export function cut(text: string, maxBytes: number): string {
  const clean = text.replaceAll('\0', '\ufffd')
  const bytes = Buffer.from(clean)
  if (bytes.length <= maxBytes) return clean
  let end = maxBytes
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return bytes.subarray(0, end).toString('utf8')
}
