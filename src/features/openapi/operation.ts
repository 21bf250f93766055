import type { AdminRole } from '../../core/identity.ts'
import * as t from '../../core/json-type.ts'
import type { ResponseBody, Route } from '../../http/route.ts'

/** One endpoint of an OpenAPI document; document.ts gives it its id. */
export type ApiOperation = {
  tags: readonly string[]
  summary: string
  description?: string
  security?: readonly object[]
  /** The least role of administrators that may use it. */
  'x-least-role'?: AdminRole
  parameters?: readonly object[]
  requestBody?: object
  responses: Readonly<Record<string, object>>
}

/** The component of what a call answers that is a dry run. */
export const DRY_RUN = 'DryRun'

export const failures = { default: { $ref: '#/components/responses/Failure' } }

/** A route as an OpenAPI operation. */
export const operationOf = (route: Route): ApiOperation => ({
  tags: [tagOf(route.path)],
  summary: route.contract.summary,
  security: SECURITY[route.auth],
  ...(route.auth === 'admin' && { 'x-least-role': route.leastRole ?? 'owner' }),
  parameters: parametersOf(route),
  ...requestBody(route),
  responses: {
    ...responsesOf(route),
    ...(route.errorBody ? { default: { description: 'Failure', content: jsonContent(t.row) } } : failures),
  },
})

const asIs = (type: t.JsonSchema): t.JsonSchema => type

/** `typed` replaces the general types of the route by more specific ones. */
export const responsesOf = ({ contract: { answers } }: Route, typed = asIs): Record<string, object> =>
  Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, response(answer, typed)]))

/** `{path...}` → `{path}` */
export const pathOf = (path: string): string => path.replaceAll('...}', '}')

const tagOf = (path: string): string => {
  const [first = '', second] = path
    .replace(/^\/api\//, '/')
    .split('/')
    .slice(1)
  return first === 'admin' && second ? `admin: ${second}` : first
}

const NO_SECURITY: readonly object[] = []
const BEARER: readonly object[] = [{ bearer: [] }]
const EITHER: readonly object[] = [{}, ...BEARER]
const SECURITY: Readonly<Record<Route['auth'], readonly object[]>> = {
  none: NO_SECURITY,
  lenient: EITHER,
  'anonymous-user': EITHER,
  optional: EITHER,
  user: BEARER,
  mfa: BEARER,
  'user-or-mfa': BEARER,
  own: BEARER,
  admin: BEARER,
}

/** For routes whose writes happen once. */
const IDEMPOTENCY_KEY = {
  name: 'Idempotency-Key',
  in: 'header',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
}

/** Header parameters of a route. */
const headersOf = ({ once }: Pick<Route, 'once'>): object[] => (once === undefined ? [] : [IDEMPOTENCY_KEY])

function parametersOf(route: Route): object[] {
  const { path, contract } = route
  const { params = {}, query = {} } = contract
  const names = [...path.matchAll(/\{(\w+)(\.\.\.)?\}/g)]
  return [
    ...names.map(([, name = '', rest]) => ({
      name,
      in: 'path',
      required: true,
      schema: plain(params[name] ?? t.string()),
      // OpenAPI has no word for a parameter that takes the rest of the path.
      ...(rest && { 'x-may-contain-slashes': true }),
    })),
    ...Object.entries(query).map(queryParameter),
    ...headersOf(route),
  ]
}

export const queryParameter = ([name, type]: [string, t.JsonSchema]): object => ({
  name,
  in: 'query',
  schema: plain(type),
})

const MEDIA_TYPE = {
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
  raw: 'multipart/form-data',
} as const

export function requestBody(
  { bodyKind, contract: { body, consumes } }: Route,
  typed = asIs,
): { requestBody?: { content: object } } {
  if (bodyKind === 'none' || (!body && bodyKind !== 'raw')) return {}
  if (!body) return { requestBody: { content: { 'application/octet-stream': {} } } }
  const schema = plain(typed(body))
  const types = consumes ?? [MEDIA_TYPE[bodyKind]]
  const of = (type: string): object => (consumes && type !== MEDIA_TYPE.json ? {} : { schema })
  return { requestBody: { content: Object.fromEntries(types.map((type) => [type, of(type)])) } }
}

function response(answer: ResponseBody, typed: typeof asIs): object {
  if (answer === null) return { description: 'No content' }
  if ('content' in answer) return { description: 'Content', content: { [answer.content]: {} } }
  return { description: 'Success', content: jsonContent(typed(answer)) }
}

export const jsonContent = (type: t.JsonSchema): object => ({ 'application/json': { schema: plain(type) } })

/** Without our own extensions of JSON Schema. */
const plain = ({ refusal: _, ...type }: t.JsonSchema): t.JsonSchema => withInner(type, plain)

/** The type with its inner types replaced. */
export function withInner(type: t.JsonSchema, replaced: (inner: t.JsonSchema) => t.JsonSchema): t.JsonSchema {
  const { properties, items, anyOf, ...rest } = type
  return {
    ...rest,
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, replaced(inner)])),
    }),
    ...(items && { items: replaced(items) }),
    ...(anyOf && { anyOf: anyOf.map(replaced) }),
  }
}
