import type { Accounts } from './accounts.ts'
import { ApiError, NetworkError, SessionEnded } from './errors.ts'
import { type Numbers, parseJson, toJson } from './json.ts'
import type { OnProgress } from './progress.ts'
import type { SessionStore } from './session-store.ts'

/** The last argument of every call. */
export type CallOptions = {
  signal?: AbortSignal
  headers?: Readonly<Record<string, string>>
  /** Milliseconds for the whole call, with its retries. */
  timeout?: number
  /** How often a call that may be repeated is; 0 = it goes out once. */
  retry?: number
  /** A write is tried and rolled back; the answer is what it would have done. */
  dryRun?: boolean
}

/** What is used of a WebSocket. */
export type SocketType = new (
  url: string,
) => {
  readonly readyState: number
  send(text: string): void
  close(): void
  onopen: (() => void) | null
  onmessage: ((event: { data: unknown }) => void) | null
  onerror: (() => void) | null
  onclose: (() => void) | null
}

export type Options = {
  /** An API key, or any bearer, for calls without a session. */
  key?: string
  /** Where the session is kept: `localStorage` in browsers, else in memory. */
  session?: SessionStore
  fetch?: (input: string, init: RequestInit) => Promise<Response>
  WebSocket?: SocketType
  headers?: Readonly<Record<string, string>>
  /** 30,000 */
  timeout?: number
  /** 4 */
  retry?: number
  /** What happens to integers beyond 2^53: `exact` = bigint, `text` = text. */
  numbers?: Numbers
  /** Is called with every failure, before it is thrown. */
  onError?: (error: Error) => void
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export type Request = {
  query?: Readonly<Record<string, unknown>> | undefined
  /** Sent as JSON, but for bytes, blobs, forms and streams, and whatever has a type of its own. */
  body?: unknown
  type?: string
  /** It may be sent again: `read` changes nothing, `key` has an Idempotency-Key that makes it happen once. */
  repeat?: 'read' | 'key' | undefined
  /** Instead of the caller's; null = none. */
  token?: string | null
  as?: 'response'
  fetch?: Options['fetch'] | undefined
}

/** Who calls. Entries such as `auth` replace it. */
export type Caller = {
  /** Changes when another person signs in or out. */
  who(): string
  token(): Promise<string | undefined>
  /** Another token than the one that was refused, if there is one. */
  renew(refused: string): Promise<string | undefined>
  /** When it is known who calls. */
  ready(): void | Promise<void>
  onChange(changed: () => void): () => void
  /** Milliseconds until the token should be renewed; NEVER if it need not be. */
  left(): number
}

/** One server and one caller. Everything that is called goes through `send`. */
export type Core = {
  readonly url: string
  readonly options: Options
  caller: Caller
  send<T = unknown>(method: Method, path: string, request?: Request, call?: CallOptions): Promise<T>
  parse(text: string): unknown
  /** A `fetch` that reports how much of the body has gone out, if an entry with files is there. */
  counting?: (onProgress: OnProgress) => NonNullable<Options['fetch']>
  /** Of `createAuth`. */
  accounts?: Accounts
}

/** Milliseconds that are more than a timer takes. */
export const NEVER: number = 2 ** 31

/** 32 characters: what a key needs of a caller that is not signed in. */
export function randomText(): string {
  const bytes = new Uint8Array(16)
  // React Native has no `crypto` of its own.
  const random = globalThis.crypto?.getRandomValues(bytes) ?? bytes.map(() => Math.random() * 256)
  return Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export const sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal?.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason ?? new Error('aborted'))
    })
  })

export const segment = (part: unknown): string => encodeURIComponent(part as string)

/** As in a path: the values of a composite key with commas between them. */
export const keyText = (key: unknown): string => (Array.isArray(key) ? key.map(segment).join() : segment(key))

export function queryText(query: Readonly<Record<string, unknown>> = {}): string {
  const text = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${name}=${segment(Array.isArray(value) ? value.join() : value)}`)
    .join('&')
  return text && `?${text}`
}

/** Classes of React Native do not name themselves. */
const isRaw = (body: unknown): boolean =>
  [globalThis.FormData, globalThis.Blob].some((type) => type && body instanceof type) ||
  /(Blob|File|Form.*|Stream|\dArray|Buffer|View|Params)]$/.test(Object.prototype.toString.call(body))

export function createCore(url: string, options: Options = {}): Core {
  const base = url.replace(/\/+$/, '')
  const parse = (text: string): unknown => parseJson(text, options.numbers)
  /** Of the last write: a server with replicas then reads where that is. */
  let position: string | undefined

  async function refusal(response: Response, method: string, path: string): Promise<ApiError> {
    const text = await response.text()
    const { headers, status } = response
    let body: { error?: string; message?: string; error_description?: string; data?: Record<string, unknown> } = {}
    try {
      body = (parse(text) as typeof body) ?? {}
    } catch {
      // A page of a proxy.
    }
    const { error = '', message = body.error_description, data } = body
    const retryAfter = Number.parseFloat(headers.get('retry-after') as string)
    return new ApiError(message, {
      ...{ status, method, path, error, data, requestId: headers.get('x-request-id') ?? undefined },
      retryAfter: retryAfter >= 0 ? retryAfter : undefined,
    })
  }

  async function send<T>(method: Method, path: string, request: Request = {}, call: CallOptions = {}): Promise<T> {
    const { caller } = core
    // Whatever parses it would fold them away.
    if (/^[^?]*\/\.\.?([/?]|$)/.test(path)) throw new TypeError(`no address: ${path}`)
    const { query, body, token: fixed, repeat = method === 'GET' ? 'read' : undefined } = request
    const { retry = options.retry ?? 4, timeout = options.timeout ?? 30_000 } = call
    const isJson = body !== undefined && request.type === undefined && !isRaw(body)
    const type = isJson ? 'application/json' : request.type
    const isStream = typeof ReadableStream === 'function' && body instanceof ReadableStream
    const headers: Record<string, string> = {
      ...(type && { 'content-type': type }),
      ...(call.dryRun ? { 'dry-run': 'true' } : repeat === 'key' && retry > 0 && { 'idempotency-key': randomText() }),
      ...(position && { 'svc-position': position }),
      ...options.headers,
      ...call.headers,
    }
    const init = {
      method,
      headers,
      body: isJson ? toJson(body) : body,
      ...(isStream && { duplex: 'half' }),
    }
    const attempts = repeat && !isStream ? retry : 0

    const stop = new AbortController()
    const onAbort = (): void => stop.abort(call.signal?.reason)
    if (call.signal?.aborted) onAbort()
    call.signal?.addEventListener('abort', onAbort)
    const timer = setTimeout(() => stop.abort(new Error('no answer in time')), timeout)
    const deadline = performance.now() + timeout

    async function attempt(token: string | undefined): Promise<Response> {
      if (token !== undefined) headers['authorization'] = `Bearer ${token}`
      return (request.fetch ?? options.fetch ?? fetch)(base + path + queryText(query), {
        ...init,
        signal: stop.signal,
      } as RequestInit)
    }

    async function answer(): Promise<T> {
      let token = fixed === undefined ? await caller.token() : (fixed ?? undefined)
      let response: Response
      for (let isRenewed = fixed !== undefined || isStream; ; isRenewed = true) {
        if (fixed === undefined) requireSame()
        response = await attempt(token)
        if (response.ok) break
        const error = await refusal(response, method, path)
        token = token !== undefined && !isRenewed && error.is('invalid_token') ? await caller.renew(token) : undefined
        if (token === undefined) throw error
      }
      const written = response.headers.get('svc-position')
      // Answers to calls side by side may come in another order than their writes.
      if (written && (headers['svc-position'] === position || written > (position as string))) position = written
      if (request.as) return response as T
      const text = await response.text()
      const isJsonText = response.headers.get('content-type')?.includes('json')
      const value = text && isJsonText ? parse(text) : text || undefined
      return ((call.dryRun && (value as { dry_run?: unknown })?.dry_run) || value) as T
    }

    /** A call goes out as the caller who made it, or not at all. */
    await caller.ready()
    const who = caller.who()
    const requireSame = (): void => {
      if (caller.who() !== who) throw new SessionEnded()
    }

    try {
      for (let tries = 0; ; tries++) {
        try {
          return await answer()
        } catch (thrown) {
          // React Native gives no reason.
          if (call.signal?.aborted) throw call.signal.reason ?? new Error('aborted')
          if (thrown instanceof SessionEnded) throw thrown
          const isRefusal = thrown instanceof ApiError
          const error = isRefusal
            ? thrown
            : new NetworkError(method, path, stop.signal.aborted ? stop.signal.reason : thrown)
          const isPassing = !isRefusal || isTransient(thrown)
          const pause = isRefusal && thrown.retryAfter !== undefined ? thrown.retryAfter * 1000 : backOff(tries)
          if (!isPassing || tries >= attempts || performance.now() + pause > deadline) throw error
          await sleep(pause, stop.signal)
          if (fixed === undefined && caller.who() !== who) throw error
        }
      }
    } catch (error) {
      options.onError?.(error as Error)
      throw error
    } finally {
      clearTimeout(timer)
      // What is still being read ends by its signal too.
      if (!request.as) call.signal?.removeEventListener('abort', onAbort)
    }
  }

  const core: Core = {
    url: base,
    options,
    send,
    parse,
    caller: {
      who: () => '',
      token: async () => options.key,
      renew: async () => undefined,
      ready() {},
      onChange: () => () => {},
      left: () => NEVER,
    },
  }
  return core
}

/** Without a code it came from a proxy. */
const isTransient = ({ status, error, retryAfter }: ApiError): boolean =>
  (status === 503 && retryAfter !== undefined) || (status > 501 && status < 505 && error === '')

export const backOff = (tries: number): number => Math.min(2_000, 100 * 2 ** tries) * (0.5 + Math.random() / 2)

/** What entries about accounts build on. */
export function accountsOf({ accounts }: Core): Accounts {
  if (!accounts) throw new Error('createAuth comes first')
  return accounts
}
