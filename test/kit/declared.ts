import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { errorCatalogue } from '../../src/core/errors.ts'
import { failure, type JsonSchema } from '../../src/core/json-type.ts'
import { json, type ResponseBody, type Route, route } from '../../src/http/route.ts'
import { createRouter } from '../../src/http/router.ts'
import { splitTarget } from '../../src/http/wire/target.ts'

type Answered = { status: number; text: string; headers: Headers }

/** Throws unless an answer is one that its route declares, or a failure in the form all failures have. */
export type CheckAnswer = (method: string, path: string, answer: Answered) => void

export function checkAgainst(routes: readonly Route[]): CheckAnswer {
  const router = createRouter(routes)
  return (method, target, answer) => {
    if (method === 'HEAD' || method === 'OPTIONS') return
    const match = router.find(method, splitTarget(target).path)
    const route = match.kind === 'found' ? match.route : undefined
    const wrong = route ? fault(route, answer) : failureFault(answer)
    if (wrong === undefined) return
    const shown = `${method} ${target.slice(0, 100)} answered ${answer.status} ${answer.text.slice(0, 500)}`
    throw new Error(
      `${shown}\nwhich ${route ? `${route.method} ${route.path}` : 'a missing route'} does not declare: ${wrong}`,
    )
  }
}

/** For a server in another process: its routes as its OpenAPI document tells them. */
export async function routesOf(url: string): Promise<Route[]> {
  const { paths } = (await (await fetch(`${url}/api/openapi.json`)).json()) as Document
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([, { tags }]) => !/^(table: |functions$)/.test(tags[0] ?? ''))
      .map(([method, operation]) => routeOf(`${method.toUpperCase()} ${path}` as 'GET /', operation)),
  )
}

type Media = Record<string, { schema?: JsonSchema }>
type Operation = {
  tags: string[]
  parameters: { name: string; 'x-may-contain-slashes'?: true }[]
  responses: Record<string, { $ref?: string; content?: Media }>
}
type Document = { paths: Record<string, Record<string, Operation>> }

function routeOf(at: 'GET /', { parameters, responses }: Operation): Route {
  const rest = parameters.find((parameter) => parameter['x-may-contain-slashes'])
  const answers = Object.entries(responses).map(([status, { content }]) => [status, answerOf(content)])
  return route(rest ? (at.replace(`{${rest.name}}`, `{${rest.name}...}`) as 'GET /') : at, {
    summary: '',
    auth: 'none',
    answers: Object.fromEntries(answers.filter(([status]) => status !== 'default')),
    ...(responses['default']?.$ref === undefined && { errorBody: () => ({}) }),
    handle: () => json(200, {}),
  })
}

function answerOf(content: Media | undefined): ResponseBody {
  const [type, media] = Object.entries(content ?? {})[0] ?? []
  if (type === undefined) return null
  return type === 'application/json' && media?.schema ? media.schema : { content: type }
}

function fault({ contract, errorBody }: Route, answer: Answered): string | undefined {
  const declared = contract.answers[answer.status]
  if (declared === undefined) {
    if (answer.status < 400) return `the status ${answer.status}`
    return errorBody ? undefined : failureFault(answer)
  }
  if (declared === null) return answer.text === '' ? undefined : 'a body'
  const type = answer.headers.get('content-type') ?? ''
  if (!('content' in declared)) return jsonFault(declared, answer)
  return declared.content === '*/*' || type.startsWith(declared.content) ? undefined : `the type ${type}`
}

function failureFault(answer: Answered): string | undefined {
  if (answer.status < 400) return `the status ${answer.status}`
  return jsonFault(failure, answer) ?? codeFault(JSON.parse(answer.text), answer.status)
}

/** The code is one of the catalogue, and belongs to the status. */
function codeFault({ error }: { error: string }, status: number): string | undefined {
  const declared = new Map<string, number>(Object.entries(errorCatalogue)).get(error)
  return declared === status ? undefined : `the error ${error} with the status ${status}`
}

function jsonFault(schema: JsonSchema, { headers, text }: Answered): string | undefined {
  const type = headers.get('content-type') ?? 'no type'
  if (!type.startsWith('application/json')) return type
  const validate = validatorOf(schema)
  if (validate(JSON.parse(text))) return undefined
  return (validate.errors ?? [])
    .map(({ instancePath, message, params }) => `${instancePath || 'the body'} ${message} ${JSON.stringify(params)}`)
    .join('; ')
}

const ajv = formats.default(new Ajv2020({ strict: false, allErrors: true }))
const validators = new WeakMap<JsonSchema, ValidateFunction>()

function validatorOf(schema: JsonSchema): ValidateFunction {
  const made = validators.get(schema) ?? ajv.compile(closed(schema))
  validators.set(schema, made)
  return made
}

/** An object has the properties it declares and no others, unless it is declared open. */
function closed(schema: JsonSchema): JsonSchema {
  const { properties, items, anyOf, additionalProperties } = schema
  return {
    ...schema,
    ...(items && { items: closed(items) }),
    ...(anyOf && { anyOf: anyOf.map(closed) }),
    ...(typeof additionalProperties === 'object' && { additionalProperties: closed(additionalProperties) }),
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, closed(inner)])),
      additionalProperties: additionalProperties ?? false,
    }),
  }
}
