export type Operation = {
  summary?: string
  description?: string
  tags?: string[]
  parameters?: { name: string; in: string; description?: string; required?: boolean; schema?: unknown }[]
  requestBody?: { content?: Record<string, { schema?: unknown; example?: unknown }> }
  responses?: Record<string, { description?: string }>
  security?: unknown[]
  'x-least-role'?: string
}
export type Document = {
  info: { title: string; version: string }
  paths: Record<string, Record<string, Operation>>
  components?: { schemas?: Record<string, unknown> }
}
export type Call = { method: string; path: string; group: string; operation: Operation }

const METHODS = ['get', 'post', 'put', 'patch', 'delete']

/** /api/auth/mfa/… → auth; collections of each table stand together. */
function groupOf(path: string): string {
  const [, first = '', second = '', third = ''] = path.split('/')
  if (first !== 'api') return 'server'
  return second === 'admin' ? `admin: ${third.replace(/\{.*/, '')}` : second
}

export const callsOf = (document: Document): Call[] =>
  Object.entries(document.paths).flatMap(([path, operations]) =>
    METHODS.flatMap((method) => {
      const operation = Object.hasOwn(operations, method) ? operations[method] : undefined
      return operation ? [{ method: method.toUpperCase(), path, group: groupOf(path), operation }] : []
    }),
  )

type Shape = {
  $ref?: string
  type?: string | string[]
  properties?: Record<string, Shape>
  items?: Shape
  enum?: unknown[]
  example?: unknown
  anyOf?: Shape[]
  oneOf?: Shape[]
  allOf?: Shape[]
  required?: string[]
}

/** A value of a schema, to begin a body with. */
export function exampleOf(document: Document, schema: unknown, depth = 0): unknown {
  const shape = (schema ?? {}) as Shape
  if (depth > 4) return null
  if (shape.example !== undefined) return shape.example
  if (shape.$ref)
    return exampleOf(
      document,
      document.components?.schemas?.[shape.$ref.split('/').at(-1)?.replaceAll('~1', '/') ?? ''],
      depth + 1,
    )
  const first = shape.anyOf?.[0] ?? shape.oneOf?.[0] ?? shape.allOf?.[0]
  if (first) return exampleOf(document, first, depth + 1)
  if (shape.enum) return shape.enum[0]
  const type = Array.isArray(shape.type) ? shape.type[0] : shape.type
  if (type === 'object' || shape.properties) {
    const entries = Object.entries(shape.properties ?? {})
    const chosen = shape.required?.length ? entries.filter(([name]) => shape.required?.includes(name)) : entries
    return Object.fromEntries(chosen.slice(0, 12).map(([name, part]) => [name, exampleOf(document, part, depth + 1)]))
  }
  if (type === 'array') return []
  if (type === 'integer' || type === 'number') return 1
  return type === 'boolean' ? true : 'text'
}
