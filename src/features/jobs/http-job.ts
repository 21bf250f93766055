import { AppError } from '../../core/errors.ts'
import type { JobHandler, JobRun } from '../../core/job.ts'
import { GiveUp, RetryIn } from '../../db/queue/queue.ts'
import { type Outgoing, OutgoingError, type OutgoingRequest } from '../../http/out/outgoing.ts'
import { retryAfterOf } from '../../http/out/retry-after.ts'

const TIMEOUT_MS = 30_000
const MAX_RESPONSE_BYTES = 65_536
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** The job type `http`: one request through the address guard; 2xx is success. */
export const httpJob =
  ({ outgoing, version }: { outgoing: Outgoing; version: string }): JobHandler =>
  async ({ id, payload, attempt, signal, log }) => {
    const { url, method, headers, body } = requestOf(payload)
    try {
      outgoing.assertAllowedUrl(url)
    } catch (error) {
      if (error instanceof AppError) throw new GiveUp(error.message)
      throw error
    }
    const answer = await outgoing
      .request({
        method,
        url,
        // The same on every attempt, so that a receiver can recognise a repeat.
        headers: { 'user-agent': `Savanna/${version}`, 'idempotency-key': id, ...headers },
        ...(body !== undefined && { body }),
        timeoutMs: TIMEOUT_MS,
        maxBytes: MAX_RESPONSE_BYTES,
        signal,
      })
      .catch((error: unknown) => {
        if (error instanceof OutgoingError && error.reason === 'blocked') throw new GiveUp(error.message)
        throw error
      })
    log(`attempt ${attempt}: ${method} answered ${answer.status}`)
    if (answer.status >= 200 && answer.status < 300) return
    const wait = retryAfterOf(answer.headers['retry-after'], Date.now())
    const reason = `receiver answered ${answer.status}`
    throw wait === undefined ? new Error(reason) : new RetryIn(wait, reason)
  }

function requestOf({
  url,
  method = 'POST',
  headers = {},
  body,
}: JobRun['payload']): Pick<OutgoingRequest, 'url' | 'method' | 'body'> & { headers: Record<string, string> } {
  if (typeof url !== 'string' || url === '') throw new GiveUp('url is required')
  const allowed = METHODS.find((one) => one === String(method).toUpperCase())
  if (!allowed) throw new GiveUp(`method must be one of: ${METHODS.join(', ')}`)
  return { url, method: allowed, ...contentOf(headersOf(headers), body) }
}

/** Lower-case names, so that a given header replaces the default. */
function headersOf(headers: unknown): Record<string, string> {
  const isTable = typeof headers === 'object' && headers !== null && !Array.isArray(headers)
  const entries: [string, unknown][] = isTable ? Object.entries(headers) : []
  if (!isTable || !entries.every(([, value]) => typeof value === 'string')) {
    throw new GiveUp('headers must be an object of strings')
  }
  const wrong = entries.find(([name, value]) => !isHeader(name, String(value)))
  if (wrong) throw new GiveUp(`no header of HTTP: ${JSON.stringify(wrong[0].slice(0, 100))}`)
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), String(value)]))
}

/** RFC 9110 §5.1 and §5.5. */
const isHeader = (name: string, value: string): boolean =>
  /^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value)

/** Strings are sent unchanged, anything else as JSON. */
function contentOf(headers: Record<string, string>, body: unknown) {
  if (body === undefined || body === null) return { headers }
  if (typeof body === 'string') return { headers, body }
  return { headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) }
}
