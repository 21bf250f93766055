import type { Method, Request } from 'savanna-client/core'
import { exactJson } from '../parts/exact.ts'
import { createStore } from '../parts/store.ts'

/** A call that changed something. `body`: JSON without secrets; null where there is none, or it is no JSON. */
export type DoneCall = { id: number; at: string; method: Method; path: string; body: string | null }

const KEPT = 30
const MOST = 20_000
/** What signs in, and what only asks. */
const SKIPPED = /^\/api\/admin\/(auth|unlock|impersonate|rls)(\/|$)|\/preview$/
const SECRET = /pass(word|phrase)|secret|token|credential|private|^(code|key|otp)$/i

/** What this page did, latest first: it can be copied as calls. */
export const doneCalls = createStore<readonly DoneCall[]>([])
let ids = 0

/** The next administrator at this browser does not see the calls of the one before. */
export const forgetCalls = (): void => doneCalls.set([])

export function noteCall(method: Method, path: string, { body, query }: Request): void {
  if (method === 'GET' || SKIPPED.test(path)) return
  const search = new URLSearchParams(
    Object.entries(query ?? {}).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  ).toString()
  const isJson = typeof body === 'object' && body !== null && !(body instanceof Blob)
  const text = isJson ? exactJson(withoutSecrets(body)) : null
  const call = {
    id: ++ids,
    at: new Date().toISOString(),
    method,
    path: search ? `${path}?${search}` : path,
    body: text !== null && text.length > MOST ? null : text,
  }
  doneCalls.set([call, ...doneCalls.get()].slice(0, KEPT))
}

function withoutSecrets(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutSecrets)
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      SECRET.test(name) && typeof inner === 'string' ? '…' : withoutSecrets(inner),
    ]),
  )
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** The token is the reader's own: no snippet carries one. */
export const asCurl = ({ method, path, body }: DoneCall): string =>
  [
    `curl -X ${method} ${quoted(`${location.origin}${path}`)}`,
    '-H "Authorization: Bearer $TOKEN"',
    ...(body === null ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(body)}`]),
  ].join(' \\\n  ')

export const asClient = ({ method, path, body }: DoneCall): string =>
  `await svc.request(${JSON.stringify(method)}, ${JSON.stringify(path)}${body === null ? '' : `, { body: ${body} }`})`
