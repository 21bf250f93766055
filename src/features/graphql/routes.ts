import { AppError, badRequest, notFound, unauthorized } from '../../core/errors.ts'
import { type Identity, mayOnlyRead, writeRefusal } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { Observe } from '../../core/observe.ts'
import { TimeSlice } from '../../core/time-slice.ts'
import type { ChangeLog } from '../../db/changes/log.ts'
import type { Db } from '../../db/db.ts'
import type { DryRuns } from '../../db/history/dry-run.ts'
import type { Cursors } from '../../db/rows/cursors.ts'
import type { LiveQuery } from '../../db/rows/live-query.ts'
import type { SchemaCache } from '../../db/schema/snapshot.ts'
import type { Candidates } from '../../db/search/candidates.ts'
import { isDryRun } from '../../http/dry-run.ts'
import type { Feature } from '../../http/feature.ts'
import { jsonText, route } from '../../http/route.ts'
import { toAppError } from '../../http/wire/error-response.ts'
import { parseExactly } from './document/exact-numbers.ts'
import { asRefusal, InvalidDocument } from './document/refusal.ts'
import type { GraphEngine } from './engine.ts'
import type { Caller, GraphqlRequest, GraphReplicas } from './request.ts'
import { responseText } from './response.ts'

export type GraphqlConfig = {
  enabled: boolean
  introspection: 'auto' | 'open' | 'admin' | 'disabled'
  max_depth: number
  max_complexity: number
}

export type GraphqlDeps = {
  db: Db
  schema: SchemaCache
  log: Pick<ChangeLog, 'appender' | 'wake'>
  dryRuns: DryRuns
  candidates: Candidates
  cursors: Cursors
  config: GraphqlConfig
  /** The server listens on the loopback interface only. */
  isLocal: boolean
  /** Whether callers without a bearer may write. */
  anonymousMayWrite: boolean
  /** `api.statement_timeout` in milliseconds. */
  timeoutMs: number
  observe: Observe
  replicas?: GraphReplicas | undefined
}

const failures = t.array(
  t.object({
    message: t.string(),
    path: t.optional(t.array(t.union(t.string(), t.integer()))),
    extensions: t.optional(
      t.object({ code: t.integer({ description: 'the HTTP status it would have been' }), error: t.string() }),
    ),
  }),
)

const request = t.object({
  query: t.string(),
  variables: t.optional(t.nullable(t.record(t.any()))),
  operationName: t.optional(t.nullable(t.string())),
})

/** In characters. Parsing a longer body has used up a time slice. */
const LONG_BODY = 100_000

/** HTTP-level errors keep the common form; other failures of the request have that of GraphQL. */
const COMMON_FORM = new Set([404, 405, 413, 415])
const errorBody = (error: AppError): unknown =>
  COMMON_FORM.has(error.status)
    ? error.toJSON()
    : { errors: [{ message: error.message, extensions: { code: error.status, error: error.errorCode } }] }

/** For a WebSocket. `text`: a message whose `payload` is the request. */
export type SocketRequests = {
  readonly isEnabled: boolean
  live(text: string): Promise<(LiveQuery & { readonly field: string }) | undefined>
  answer(caller: Caller, text: string): Promise<string>
  failures(error: unknown): readonly object[]
}

export function createGraphql(deps: GraphqlDeps): Feature & { requests: SocketRequests } {
  const { config } = deps
  let engine: Promise<GraphEngine> | undefined
  // The library is loaded with the first document, because many servers never use GraphQL.
  const started = (): Promise<GraphEngine> => {
    engine ??= import('./engine.ts').then(
      ({ GraphEngine: Engine }) => new Engine({ ...deps, limits: config, mayIntrospect, requireWriter }),
    )
    return engine
  }

  const mayIntrospect = (who: Identity): boolean => {
    const rule = config.introspection === 'auto' ? (deps.isLocal ? 'open' : 'admin') : config.introspection
    return rule === 'open' || (rule === 'admin' && who.kind === 'admin')
  }

  const requireWriter = (who: Identity): void => {
    if (mayOnlyRead(who)) throw writeRefusal(who)
    if (who.kind === 'key' && who.grant.scope === 'readonly') {
      throw new AppError('insufficient_scope', 'api key scope does not permit write operations')
    }
    if (who.kind === 'admin' && who.role === 'viewer') {
      throw new AppError('insufficient_role', 'this needs the role operator of an administrator')
    }
    if (who.kind === 'anonymous' && !deps.anonymousMayWrite) {
      throw unauthorized('missing or invalid authorization header')
    }
  }

  const routes = [
    route('POST /api/graphql', {
      summary: 'Queries and mutations over the same tables, rights and change log as collections',
      auth: 'optional',
      leastRole: 'viewer',
      access: 'read',
      impersonable: true,
      readsToo: true,
      limit: 'api',
      dryRun: 'own',
      requires: () => {
        if (!config.enabled) throw notFound('GraphQL is not enabled', 'feature_disabled')
      },
      accepts: request,
      errorBody,
      answers: { 200: t.object({ data: t.any(), errors: t.optional(failures), extensions: t.optional(t.row) }) },
      handle: async (call) => {
        const input = requestOf(call.body)
        if (Object.keys(input.variables).length > 0) input.variables = variablesIn(call.bodyText)
        if (call.bodyText.length > LONG_BODY) await new TimeSlice(0).yieldIfOver()
        const dryRun = isDryRun(call) ? deps.dryRuns.start(call.who, call.cancelSignal) : undefined
        const result = await (await started()).answer(call, input, dryRun?.db)
        const { json, wrote } = result
        if (wrote && dryRun) {
          return jsonText(200, `${responseText(result).slice(0, -1)},"extensions":{"dry_run":{${dryRun.told}}}}`)
        }
        if (!wrote) return jsonText(200, json)
        deps.log.wake()
        const position = deps.replicas?.wrote(call.who)
        return { ...jsonText(200, json), ...(position && { headers: { 'Svc-Position': position } }) }
      },
    }),
  ]
  const requests: SocketRequests = {
    isEnabled: config.enabled,
    live: async (text) => (await started()).live(requestIn(text)),
    answer: async (caller, text) => {
      const result = await (await started()).answer(caller, requestIn(text))
      if (result.wrote) deps.log.wake()
      return responseText(result)
    },
    failures: (error) => {
      if (error instanceof InvalidDocument) return error.failures
      const { message, status: code, errorCode } = toAppError(asRefusal(error))
      return [{ message, extensions: { code, error: errorCode } }]
    },
  }
  return { routes, requests }
}

const requestIn = (text: string): GraphqlRequest => requestOf((parseExactly(text) as { payload?: unknown }).payload)

/** Of a body that was found valid. */
const variablesIn = (bodyText: string): Record<string, unknown> =>
  (parseExactly(bodyText) as { variables: Record<string, unknown> }).variables

function requestOf(body: unknown): GraphqlRequest {
  const fields = (typeof body === 'object' && body !== null && !Array.isArray(body) ? body : {}) as Record<
    string,
    unknown
  >
  const { query, variables, operationName } = fields
  if (typeof query !== 'string' || query.trim() === '') throw badRequest('query is required')
  if (variables !== undefined && variables !== null && (typeof variables !== 'object' || Array.isArray(variables))) {
    throw badRequest('variables must be an object')
  }
  if (operationName !== undefined && operationName !== null && typeof operationName !== 'string') {
    throw badRequest('operationName must be a string')
  }
  return {
    query,
    variables: (variables ?? {}) as Record<string, unknown>,
    operationName: operationName ?? undefined,
  }
}
