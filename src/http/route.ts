import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { AuditEntry, AuditNote } from '../core/audit-entry.ts'
import type { CancelSignal } from '../core/cancel-signal.ts'
import type { AppError } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'
import type { Fields, JsonType } from '../core/json-type.ts'
import { queryCheck, readBody, readParams } from './contract.ts'

export type HttpMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * none: the bearer is not looked at. optional: a bearer is accepted, a bad one is 401. lenient: a bad one counts as none
 * and waits in `call.badBearer` for a handler that finds out later that it matters.
 * user: a user's JWT. mfa: an MFA token. user-or-mfa: either. admin: the admin token only.
 */
export type Auth = 'none' | 'optional' | 'lenient' | 'user' | 'mfa' | 'user-or-mfa' | 'admin'

/**
 * What keys and OAuth tokens may do here, checked once in front of every route. `none` refuses them (the default deny);
 * `read` lets every scope in; `write` refuses `readonly`.
 */
export type Access = 'none' | 'read' | 'write'

/** A `rate_limit.*` key of the configuration, without the prefix. */
export type LimitName = string

type Texts = Readonly<Record<string, string>>

export type Call<Body = unknown, Params = Texts> = {
  readonly params: Params
  /** The parameters as they stood in the path, before percent-decoding. */
  readonly rawParams: Texts
  /** Last value of each query parameter. */
  readonly query: Texts
  /** Names that stood more than once in the query or form; OAuth refuses them (RFC 6749 §3.1). */
  readonly repeated: ReadonlySet<string>
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Body
  /** The body as it came, already checked to be valid UTF-8 and JSON; empty when there was none. */
  readonly bodyText: string
  readonly who: Identity
  /** Why the bearer was not believed, on routes whose auth is lenient. */
  readonly badBearer: AppError | undefined
  readonly ip: string
  readonly requestId: string
  /**
   * The audit entry of this call, for the flight of its change (db/audit.ts). Only what no handler took is written by the
   * pipeline, after the change and apart from it.
   */
  audit(note?: AuditNote): AuditEntry
  /** Told when the client goes away, for statements on its behalf. */
  readonly cancelSignal: CancelSignal
  /** The same for those that take nothing but an AbortSignal, which is dear. */
  readonly signal: AbortSignal
  /** For streaming answers and uploads only; the headers every answer carries are already set on the response. */
  readonly raw: { readonly request: IncomingMessage; readonly response: ServerResponse }
  /** On routes with `upgrade`: the connection, on which the handler answers from here on. */
  takeConnection(): UpgradedConnection
}

export type UpgradedConnection = {
  readonly request: IncomingMessage
  readonly socket: Socket
  /** What came behind the request. */
  readonly head: Buffer
  /** Names and values in turn, which every answer carries. */
  readonly headers: readonly string[]
}

export type Reply = {
  status: number
  headers?: Record<string, string>
  /** Serialised with JSON.stringify. */
  body?: unknown
  /** JSON text as PostgreSQL built it, passed through untouched. */
  json?: JsonText
  /** Any other content; give a content-type header. */
  content?: string | Buffer
  /** The handler wrote (or keeps writing) to raw.response itself; status is for the log only. */
  streaming?: true
  /** What the audit entry should say beyond the route's action; never secrets. */
  audit?: AuditNote
}

/** A long one may be bytes, in one piece or several. */
export type JsonText = string | Buffer | readonly Buffer[]

export type BodyKind = 'none' | 'json' | 'form' | 'raw'

export type Route = {
  readonly method: HttpMethod
  readonly path: string
  readonly auth: Auth
  readonly access: Access
  /** Whatever `api.anonymous` says: for what is public by itself, and for routes that decide alone. */
  readonly openToVisitors?: true
  /** The bearer may also stand in the URL as `token`: a browser's EventSource cannot send headers. */
  readonly tokenInQuery?: true
  /** Answers nothing but the opening handshake of a WebSocket, from pages of origins that `server.cors_origins` allows. */
  readonly upgrade?: true
  readonly limit?: LimitName
  /** Action name of the audit entry written for each success; every admin write has one. */
  readonly audit?: string
  /** `none`: a body is ignored. `json`: parsed, empty = {}. `form`: x-www-form-urlencoded → object of strings. `raw`: untouched. */
  readonly bodyKind: BodyKind
  /** Bytes; default server.body_limit. */
  readonly bodyLimit?: number
  /** Pages of every origin may call it, whatever `server.cors_origins` says: the protocol has its own credentials. */
  readonly anyOrigin?: true
  /** What a body of another type is told, where a protocol prescribes its own refusal. */
  readonly wrongType?: () => AppError
  /** The error body where a protocol prescribes its own, such as `{error, error_description}` of OAuth. */
  readonly errorBody?: (error: AppError) => unknown
  /** What it takes and answers, for OpenAPI and for the tests, which hold every answer against it. */
  readonly contract: Contract
  /** Before the body is read: parameters that cannot be, and features that are switched off. */
  readonly check: (call: Call) => void
  /** Handlers that need not wait answer without a promise; /health is one. */
  readonly run: (call: Call) => Reply | Promise<Reply>
}

/** An answer's body: JSON of a type, other content by its media type, or none. */
export type ResponseBody = JsonType | { readonly content: string } | null

export type Contract = {
  /** One line, as a reader of the reference sees it first. */
  readonly summary: string
  readonly params?: Fields
  readonly query?: Fields
  /** The body as JSON, or as the fields of a form. */
  readonly body?: JsonType
  /** Media types of a raw body, where it has several forms; `body` is its form as JSON. */
  readonly consumes?: readonly string[]
  /** By status. Failures need not be named: they are all alike. */
  readonly answers: Readonly<Record<number, ResponseBody>>
}

/** `/api/things/{id}/{path...}` → 'id' | 'path' */
type ParamNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? (Name extends `${infer Bare}...` ? Bare : Name) | ParamNames<Rest>
  : never

export type RouteDefinition<At extends string, Body> = Omit<Contract, 'body'> & {
  auth: Auth
  access?: Access
  openToVisitors?: true
  tokenInQuery?: true
  upgrade?: true
  limit?: LimitName
  audit?: string
  bodyKind?: BodyKind
  bodyLimit?: number
  anyOrigin?: true
  wrongType?: () => AppError
  errorBody?: (error: AppError) => unknown
  /** Checked before the handler runs, which gets the declared fields and nothing else. */
  body?: JsonType<Body>
  /** As `body`, for a handler that reads call.body or call.bodyText by itself. */
  accepts?: JsonType
  /** Throws while the feature is switched off. */
  requires?: () => void
  handle: (call: Call<Body, Readonly<Record<ParamNames<At>, string>>>) => Reply | Promise<Reply>
}

/** Paths use `{name}` for one segment and `{name...}` for the rest (or the rest before a last word), as docs/api.md writes them. */
export function route<const At extends `${HttpMethod} /${string}`, Body = unknown>(
  at: At,
  definition: RouteDefinition<At, Body>,
): Route {
  const [method, path] = at.split(' ') as [HttpMethod, string]
  const { summary, params, query, answers, body, accepts, consumes, requires, handle, ...rest } = definition
  const documented = body ?? accepts
  const checkQuery = query && queryCheck(query)
  return {
    method,
    path,
    access: 'none',
    bodyKind: method === 'GET' || method === 'DELETE' ? 'none' : 'json',
    ...rest,
    contract: {
      summary,
      answers,
      ...(params && { params }),
      ...(query && { query }),
      ...(documented && { body: documented }),
      ...(consumes && { consumes }),
    },
    check(call) {
      if (params) readParams(call.params as Record<string, string>, params)
      requires?.()
      checkQuery?.(call.query)
    },
    // The names in the path are the keys of `params`, which only the compiler needs to be told.
    run: (call) => handle((body ? withBody(call, readBody(body, call.body)) : call) as Parameters<typeof handle>[0]),
  }
}

/** In place, because a call makes its parts when asked for them: a copy would make them all. */
const withBody = <Body>(call: Call, body: Body): Call<Body> => Object.assign(call as Call<Body>, { body })

export const json = (status: number, body: unknown): Reply => ({ status, body })
export const jsonText = (status: number, text: JsonText): Reply => ({ status, json: text })
export const noContent: Reply = { status: 204 }
