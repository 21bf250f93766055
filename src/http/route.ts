import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { AuditEntry, AuditNote } from '../core/audit-entry.ts'
import type { CancelSignal } from '../core/cancel-signal.ts'
import type { AppError } from '../core/errors.ts'
import type { AdminRole, Identity } from '../core/identity.ts'
import type { Fields, JsonType } from '../core/json-type.ts'
import * as t from '../core/json-type.ts'
import type { Once } from '../core/once.ts'
import { queryCheck, readBody, readParams } from './contract.ts'

export type HttpMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/**
 * none: the bearer is ignored. optional: a bearer is accepted, a bad one is 401. lenient: a bad one counts as none and is
 * kept in `call.badBearer` for a handler that may need it. anonymous-user: as lenient, and a good one counts as none too unless it is
 * that of an anonymous account.
 * user: a user's JWT. mfa: an MFA token. user-or-mfa: either. admin: the admin token only.
 * own: the route identifies its callers itself, by `identify`.
 */
export type Auth = 'own' | 'none' | 'optional' | 'lenient' | 'anonymous-user' | 'user' | 'mfa' | 'user-or-mfa' | 'admin'

/**
 * What keys and OAuth tokens may do on a route. `none` refuses them (the default); `read` admits every scope; `write`
 * refuses `readonly`.
 */
export type Access = 'none' | 'read' | 'write'

/** A `rate_limit.*` key of the configuration, without the prefix. */
export type LimitName = string

type Texts = Readonly<Record<string, string>>

export type Call<Body = unknown, Params = Texts> = {
  readonly params: Params
  /** The parameters before percent-decoding. */
  readonly rawParams: Texts
  /** Last value of each query parameter. */
  readonly query: Texts
  /** Names that occur more than once in the query or form; OAuth refuses them (RFC 6749 §3.1). */
  readonly repeated: ReadonlySet<string>
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Body
  /** The unparsed body, checked to be valid UTF-8 and JSON; empty when there was none. */
  readonly bodyText: string
  readonly who: Identity
  /** Why the bearer was refused, on routes whose auth is lenient. */
  readonly badBearer: AppError | undefined
  readonly ip: string
  readonly requestId: string
  /**
   * The audit entry of this call, to be written in the flight of its change (db/audit.ts). The pipeline writes an entry
   * that no handler took after the change.
   */
  audit(note?: AuditNote): AuditEntry
  /** Fires when the client disconnects, to cancel its statements. */
  readonly cancelSignal: CancelSignal
  /** Of a request with an Idempotency-Key, on routes that take one; see http/once.ts. */
  readonly once: Once | undefined
  /** As an AbortSignal; made on first use because creating one is slow. */
  readonly signal: AbortSignal
  /** Path and query as they were sent. */
  readonly target: string
  /** For streaming responses and uploads only; the common headers are already set on the response. */
  readonly raw: { readonly request: IncomingMessage; readonly response: ServerResponse }
  /** On routes with `upgrade`: hands the connection over to the handler. */
  takeConnection(): UpgradedConnection
}

export type UpgradedConnection = {
  readonly request: IncomingMessage
  readonly socket: Socket
  /** Bytes that followed the request. */
  readonly head: Buffer
  /** The common response headers, names and values alternating. */
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
  /** Details of the audit entry; never secrets. */
  audit?: AuditNote
}

/** Long texts may be bytes, in one or several pieces. */
export type JsonText = string | Buffer | readonly Buffer[]

export type BodyKind = 'none' | 'json' | 'form' | 'raw'

export type Route = {
  readonly method: HttpMethod
  readonly path: string
  readonly auth: Auth
  readonly access: Access
  /** Of a route whose auth is `own`: throws for callers that it does not take. */
  readonly identify?: (call: Call) => Identity | Promise<Identity>
  /** The least role of administrators that the route admits; unstated it is the owner. */
  readonly leastRole?: AdminRole
  /** Open to administrators who have to enrol a second factor first. */
  readonly enrols?: true
  /** Needs a second factor of the last ten minutes from administrators who have one. */
  readonly freshFactor?: true
  /** Open to administrators who act as another caller; new routes are not. */
  readonly impersonable?: true
  /** Not only writes: callers who may only read get in, and the handler or the database refuses what they write. */
  readonly readsToo?: true
  /** Reads or writes files in buckets, which a key limited to tables reaches with a storage scope only. */
  readonly files?: true
  /** Ignores `api.anonymous`: for public resources and for routes that check access themselves. */
  readonly openToVisitors?: true
  /**
   * The bearer may be the query parameter `token`, because a browser's EventSource cannot send headers. `live`: of streams,
   * which this route answers with `live=true`.
   */
  readonly tokenInQuery?: true | 'live'
  /** Accepts only the opening handshake of a WebSocket, from origins that `server.cors_origins` allows. */
  readonly upgrade?: true
  /** With `upgrade`: throws what other requests to it are refused with; default 426. */
  readonly otherwise?: () => never
  readonly limit?: LimitName
  /**
   * Takes `Dry-Run: true`, which other routes that write refuse. `wrapped`: the answer is inside `dry_run`. `own`: its
   * protocol has another place for it.
   */
  readonly dryRun?: 'wrapped' | 'own'
  /** Action name of the audit entry written for each success; every admin write has one. */
  readonly audit?: string
  /** `none`: a body is ignored. `json`: parsed, empty = {}. `form`: x-www-form-urlencoded → object of strings. `raw`: untouched. */
  readonly bodyKind: BodyKind
  /** Bytes; default server.body_limit. */
  readonly bodyLimit?: number
  /**
   * Takes an Idempotency-Key, which belongs to the caller or to the refresh token in the body. The handler passes
   * `call.once` on to the transaction of its write.
   */
  readonly once?: 'caller' | 'refresh token'
  /** What OPTIONS says of its path, where a protocol wants it said. */
  readonly optionsHeaders?: Readonly<Record<string, string>>
  /** Ignores `server.cors_origins`: the protocol has its own credentials. */
  readonly anyOrigin?: true
  /** The error for a body of another type, where a protocol prescribes one. */
  readonly wrongType?: () => AppError
  /** The error body where a protocol prescribes one, such as `{error, error_description}` of OAuth. */
  readonly errorBody?: (error: AppError) => unknown
  /** The declared request and responses, for OpenAPI and for the tests, which check every response against it. */
  readonly contract: Contract
  /** Throws while the feature is disabled. Runs before the limit and `check`, once the caller is known to be admitted. */
  readonly requires?: () => void
  /** Runs before the body is read: refuses invalid parameters. */
  readonly check: (call: Call) => void
  /** Synchronous handlers, such as /health, return no promise. */
  readonly run: (call: Call) => Reply | Promise<Reply>
}

/** A response body: JSON of a type, other content by its media type, or none. */
export type ResponseBody = JsonType | { readonly content: string } | null

export type Contract = {
  /** One line for the API reference. */
  readonly summary: string
  readonly params?: Fields
  readonly query?: Fields
  /** The JSON body, or the fields of a form. */
  readonly body?: JsonType
  /** Media types of a raw body that has several forms; `body` is its JSON form. */
  readonly consumes?: readonly string[]
  /** By status, without failures, which all have the same body. */
  readonly answers: Readonly<Record<number, ResponseBody>>
}

/** `/api/things/{id}/{path...}` → 'id' | 'path' */
type ParamNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? (Name extends `${infer Bare}...` ? Bare : Name) | ParamNames<Rest>
  : never

type Derived = 'method' | 'path' | 'contract' | 'check' | 'run'

export type RouteDefinition<At extends string, Body> = Omit<Contract, 'body'> & {
  /** Checked before the handler runs, which receives only the declared fields. */
  body?: JsonType<Body>
  /** As `body`, for a handler that reads call.body or call.bodyText itself. */
  accepts?: JsonType
  handle: (call: Call<Body, Readonly<Record<ParamNames<At>, string>>>) => Reply | Promise<Reply>
} & Pick<Route, 'auth'> &
  Partial<Omit<Route, Derived>>

/** Paths use `{name}` for one segment and `{name...}` for the rest, or the rest before a last segment. */
export function route<const At extends `${HttpMethod} /${string}`, Body = unknown>(
  at: At,
  definition: RouteDefinition<At, Body>,
): Route {
  const [method, path] = at.split(' ') as [HttpMethod, string]
  const { summary, params, query, answers, body, accepts, consumes, handle, ...rest } = definition
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
      answers: definition.dryRun === 'wrapped' ? withDryRun(answers) : answers,
      ...(params && { params }),
      ...(query && { query }),
      ...(documented && { body: documented }),
      ...(consumes && { consumes }),
    },
    check(call) {
      if (params) readParams(call.params as Record<string, string>, params)
      checkQuery?.(call.query)
    },
    // The cast tells the compiler that the names in the path are the keys of `params`.
    run: (call) => handle((body ? withBody(call, readBody(body, call.body)) : call) as Parameters<typeof handle>[0]),
  }
}

/** Assigns in place, because a copy would evaluate all lazy getters of the call. */
const withBody = <Body>(call: Call, body: Body): Call<Body> => Object.assign(call as Call<Body>, { body })

/** A `requires` of routes whose feature may be switched off. */
export const requireEnabled = (isEnabled: boolean, refusal: () => AppError) => (): void => {
  if (!isEnabled) throw refusal()
}

export const json = (status: number, body: unknown): Reply => ({ status, body })
export const jsonText = (status: number, text: JsonText): Reply => ({ status, json: text })
export const noContent: Reply = { status: 204 }
export const noContentAfter = (work: Promise<unknown>): Promise<Reply> => work.then(() => noContent)

export const dryRunAnswer = t.object({
  dry_run: t.object({
    status: t.integer({ description: 'the status of what would have been' }),
    answer: t.any({ description: 'its body; null where there is none' }),
    changes: t.array(
      t.object({
        table: t.optional(t.string()),
        action: t.optional(t.oneOf(['create', 'update', 'delete'])),
        key: t.optional(t.any()),
        changes: t.optional(t.record(t.any(), { description: '{column: {old, new}}' })),
        other: t.optional(t.boolean({ description: 'tables changed that the caller may not read' })),
      }),
    ),
    truncated: t.optional(t.boolean({ description: 'there are more changes than are listed' })),
  }),
})

/** The declared answers of a route, and that of a dry run. */
function withDryRun(answers: Readonly<Record<number, ResponseBody>>): Readonly<Record<number, ResponseBody>> {
  const ordinary = answers[200]
  if (ordinary && 'content' in ordinary) throw new TypeError('the answer of a dry run is JSON')
  return { ...answers, 200: ordinary ? t.union(ordinary as JsonType, dryRunAnswer) : dryRunAnswer }
}
