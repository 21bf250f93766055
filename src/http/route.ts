import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AppError } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'

export type HttpMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * none: the bearer is not looked at. optional: a bearer is accepted, a bad one is 401.
 * user: a user's JWT. mfa: an MFA token. user-or-mfa: either. admin: the admin token only.
 */
export type Auth = 'none' | 'optional' | 'user' | 'mfa' | 'user-or-mfa' | 'admin'

/**
 * What keys and OAuth tokens may do here, checked once in front of every route. `none` refuses them (the default deny);
 * `read` lets every scope in; `write` refuses `readonly`.
 */
export type Access = 'none' | 'read' | 'write'

/** A `rate_limit.*` key of the configuration, without the prefix. */
export type LimitName = string

export type Call<Body = unknown> = {
  readonly params: Readonly<Record<string, string>>
  /** The parameters as they stood in the path, before percent-decoding. */
  readonly rawParams: Readonly<Record<string, string>>
  /** Last value of each query parameter. */
  readonly query: Readonly<Record<string, string>>
  /** Names that stood more than once in the query or form; OAuth refuses them (RFC 6749 §3.1). */
  readonly repeated: ReadonlySet<string>
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Body
  /** The body as it came, already checked to be valid UTF-8 and JSON; empty when there was none. */
  readonly bodyText: string
  readonly who: Identity
  readonly ip: string
  readonly requestId: string
  /** Aborted when the client goes away. */
  readonly signal: AbortSignal
  /** For streaming answers and uploads only; the headers every answer carries are already set on the response. */
  readonly raw: { readonly request: IncomingMessage; readonly response: ServerResponse }
}

export type Reply = {
  status: number
  headers?: Record<string, string>
  /** Serialised with JSON.stringify. */
  body?: unknown
  /** JSON text as PostgreSQL built it, passed through untouched. */
  json?: string
  /** Any other content; give a content-type header. */
  content?: string | Buffer
  /** The handler wrote (or keeps writing) to raw.response itself; status is for the log only. */
  streaming?: true
  /** What the audit entry should say beyond the route's action; never secrets. */
  audit?: AuditNote
}

export type AuditNote = {
  /** Default: the last path parameter, else the `id` of the answer. */
  target?: string
  oldValues?: unknown
  newValues?: unknown
}

/** Turns the parsed JSON into the handler's body, or throws badRequest. See http/body.ts. */
export type BodyParser<Body> = (input: unknown) => Body

export type BodyKind = 'none' | 'json' | 'form' | 'raw'

export type Route = {
  readonly method: HttpMethod
  readonly path: string
  readonly auth: Auth
  readonly access: Access
  /** The bearer may also stand in the URL as `token`: a browser's EventSource cannot send headers. */
  readonly tokenInQuery?: true
  readonly limit?: LimitName
  /** Action name of the audit entry written for each success; every admin write has one. */
  readonly audit?: string
  /** `none`: a body is ignored. `json`: parsed, empty = {}. `form`: x-www-form-urlencoded → object of strings. `raw`: untouched. */
  readonly bodyKind: BodyKind
  /** Bytes; default server.body_limit. */
  readonly bodyLimit?: number
  /** The error body where a protocol prescribes its own, such as `{error, error_description}` of OAuth. */
  readonly errorBody?: (error: AppError) => unknown
  /** The file that made it, for `npm run routes`. */
  readonly file: string
  /** Handlers that need not wait answer without a promise; /health is one. */
  readonly run: (call: Call) => Reply | Promise<Reply>
}

type Definition<Body> = {
  auth: Auth
  access?: Access
  tokenInQuery?: true
  limit?: LimitName
  audit?: string
  bodyKind?: BodyKind
  bodyLimit?: number
  errorBody?: (error: AppError) => unknown
  body?: BodyParser<Body>
  handle: (call: Call<Body>) => Reply | Promise<Reply>
}

/** Paths use `{name}` for one segment and `{name...}` for the rest of the path, as docs/api.md writes them. */
export function route<Body = unknown>(at: `${HttpMethod} /${string}`, definition: Definition<Body>): Route {
  const [method, path] = at.split(' ') as [HttpMethod, string]
  const {
    body,
    handle,
    access = 'none',
    bodyKind = method === 'GET' || method === 'DELETE' ? 'none' : 'json',
    ...rest
  } = definition
  return {
    method,
    path,
    access,
    bodyKind,
    ...rest,
    file: callerFile(),
    run: (call) => handle(body ? withBody(call, body(call.body)) : (call as Call<Body>)),
  }
}

/** In place, because a call makes its parts when asked for them: a copy would make them all. */
const withBody = <Body>(call: Call, body: Body): Call<Body> => Object.assign(call as Call<Body>, { body })

/** The source file that called `route`, read from the stack once at start. */
function callerFile(): string {
  const frames = (new Error().stack ?? '').split('\n').slice(3)
  const frame = frames.find((line) => !line.includes('/http/route.')) ?? ''
  return (
    /\/((?:src|dist)\/[^:)]+)/
      .exec(frame)?.[1]
      ?.replace(/^dist\//, 'src/')
      .replace(/\.js$/, '.ts') ?? ''
  )
}

export const json = (status: number, body: unknown): Reply => ({ status, body })
export const jsonText = (status: number, text: string): Reply => ({ status, json: text })
export const noContent: Reply = { status: 204 }
