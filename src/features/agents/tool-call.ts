import type { AuditEntry } from '../../core/audit-entry.ts'
import type { CancelSignal } from '../../core/cancel-signal.ts'
import { AppError } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import { parseKeepingDigits } from '../../core/json-digits.ts'
import type { Call, Reply, Route } from '../../http/route.ts'

type Texts = Readonly<Record<string, string>>
const NOTHING: Texts = Object.freeze({})
const NO_NAMES: ReadonlySet<string> = new Set()

export type ToolRequest = {
  readonly params?: Texts
  readonly query?: Texts
  readonly body?: unknown
  /** The write is tried, and done only if its difference is agreed to. */
  readonly isWrite?: boolean
}

/** A call of a route that no HTTP request made: of a tool, as its agent. */
export class ToolCall implements Call {
  readonly params: Texts
  readonly rawParams: Texts
  readonly query: Texts
  readonly repeated = NO_NAMES
  readonly headers: Texts
  readonly body: unknown
  readonly bodyText: string
  readonly badBearer = undefined
  readonly once = undefined
  readonly target = ''
  readonly who: Identity
  readonly ip: string
  readonly requestId: string
  readonly cancelSignal: CancelSignal

  constructor(
    { params = NOTHING, query = NOTHING, body, isWrite = false }: ToolRequest,
    context: { who: Identity; ip: string; requestId: string; cancelSignal: CancelSignal },
  ) {
    this.params = params
    this.rawParams = params
    this.query = query
    this.body = body ?? {}
    this.bodyText = body === undefined ? '' : JSON.stringify(body)
    this.headers = isWrite ? { 'dry-run': 'true' } : NOTHING
    this.who = context.who
    this.ip = context.ip
    this.requestId = context.requestId
    this.cancelSignal = context.cancelSignal
  }

  get signal(): AbortSignal {
    return this.cancelSignal as AbortSignal
  }
  get raw(): never {
    throw new TypeError('a tool has no connection')
  }
  takeConnection(): never {
    throw new TypeError('a tool has no connection')
  }
  audit(): AuditEntry {
    throw new TypeError('tools are audited by the agents themselves')
  }
}

/** The routes that tools use, by method and path. */
export class ToolRoutes {
  readonly #routes: ReadonlyMap<string, Route>

  constructor(routes: readonly Route[]) {
    this.#routes = new Map(routes.map((route) => [`${route.method} ${route.path}`, route]))
  }

  at(name: string): Route {
    const route = this.#routes.get(name)
    if (!route) throw new TypeError(`there is no route ${name}`)
    return route
  }

  /** What the route answers, as a value. */
  async run(name: string, call: ToolCall): Promise<unknown> {
    const route = this.at(name)
    route.check(call)
    return replyValue(await route.run(call))
  }
}

function replyValue({ status, json, body }: Reply): unknown {
  if (json === undefined) return status === 204 ? null : body
  const text = typeof json === 'string' ? json : Array.isArray(json) ? Buffer.concat(json).toString() : json.toString()
  return parseKeepingDigits(text)
}

/** Aborts after a time, or when the client is gone. */
export function deadline(signal: CancelSignal, ms: number): { signal: AbortSignal; isLate(): boolean; end(): void } {
  const abort = new AbortController()
  const gone = (): void => abort.abort()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    abort.abort()
  }, ms)
  signal.addEventListener('abort', gone)
  if (signal.aborted) gone()
  return {
    signal: abort.signal,
    isLate: () => isLate,
    end: () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', gone)
    },
  }
}

export const tooLate = (): AppError => new AppError('timeout', 'the call took longer than 5 seconds')
