import type { JsonSchema } from '../../core/json-type.ts'

type Media = { content?: { 'application/json'?: { schema?: JsonSchema } } }
type Operation = { requestBody?: Media; responses: Readonly<Record<string, Media>> }
type Document = {
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  components: { schemas: Readonly<Record<string, JsonSchema>> }
}

const ENUM = 'Enum.'

/** A list may be one of several kinds of pages with the same items. */
const rowOf = (list: JsonSchema | undefined): JsonSchema | undefined =>
  (list?.anyOf?.[0] ?? list)?.properties?.['items']?.items

/** A TypeScript file with the tables and functions of the server's OpenAPI document. */
export function typesOf({ paths, components: { schemas } }: Document): string {
  const named = (prefix: string) =>
    Object.entries(paths).flatMap(([path, item]) => {
      const name = path.startsWith(prefix) ? path.slice(prefix.length) : ''
      return name === '' || name.includes('/') || name.includes('{')
        ? []
        : [{ name: decodeURIComponent(name), path, item }]
    })
  const tables = named('/api/collections/').map(({ name, path, item: { get, post } }) => {
    const patch = paths[`${path}/{id}`]?.['patch']
    const parts = {
      Row: get && rowOf(bodyOf(get.responses['200'])),
      Insert: post && bodyOf(post.requestBody),
      Update: patch && bodyOf(patch.requestBody),
    }
    return { name, parts: Object.entries(parts).flatMap(([kind, type]) => (type ? [{ kind, type }] : [])) }
  })
  const enums = Object.entries(schemas).filter(([name]) => name.startsWith(ENUM))

  const names = new Map<string, string>([
    ...tables.flatMap(({ name, parts }) =>
      parts.map(({ kind, type }): [string, string] => [targetOf(type), `Database['tables'][${text(name)}]['${kind}']`]),
    ),
    ...enums.map(([name]): [string, string] => [name, `Database['enums'][${text(name.slice(ENUM.length))}]`]),
  ])
  const print = new Printer(names)

  const members = {
    tables: tables.map(({ name, parts }) => {
      const types = parts.map(
        ({ kind, type }) => `      ${kind}: ${print.type(schemas[targetOf(type)] ?? type, '      ')}`,
      )
      return `    ${key(name)}: {\n${types.join('\n')}\n    }`
    }),
    enums: enums.map(([name, type]) => `    ${key(name.slice(ENUM.length))}: ${print.type(type, '    ')}`),
    functions: named('/api/rpc/').map(({ name, item: { post } }) => {
      const args = print.type(bodyOf(post?.requestBody) ?? {}, '      ')
      const result = bodyOf(post?.responses['200'])
      const returns = [
        ...(result ? [print.type(result, '      ')] : []),
        ...(post?.responses['204'] ? ['undefined'] : []),
      ]
      return `    ${key(name)}: {\n      Args: ${args}\n      Returns: ${returns.join(' | ')}\n    }`
    }),
  }
  const body = Object.entries(members).map(([group, lines]) => `  ${group}: {\n${lines.join('\n')}\n  }`)
  return `// Made by \`svc types\`.\nexport interface Database {\n${body.join('\n')}\n}\n`
}

const bodyOf = (media: Media | undefined): JsonSchema | undefined => media?.content?.['application/json']?.schema
const targetOf = ({ $ref = '' }: JsonSchema): string => $ref.split('/').at(-1) ?? ''

const text = (value: unknown): string => JSON.stringify(value)
const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : text(name))
const comment = (words: string, indent: string): string =>
  `${indent}/** ${words.replaceAll('*/', '*\\/').replaceAll('\n', ' ')} */\n`

/** Prints JSON Schema as TypeScript. */
class Printer {
  readonly #names: ReadonlyMap<string, string>

  constructor(names: ReadonlyMap<string, string>) {
    this.#names = names
  }

  type(schema: JsonSchema, indent: string): string {
    if (schema.$ref !== undefined) return this.#names.get(targetOf(schema)) ?? 'unknown'
    if (schema.anyOf) return schema.anyOf.map((one) => this.type(one, indent)).join(' | ')
    if (schema.enum) return schema.enum.map(text).join(' | ') || 'never'
    if (schema.properties) return this.#object(schema, indent)
    switch (schema.type) {
      case 'array':
        return `(${this.type(schema.items ?? {}, indent)})[]`
      case 'object':
        return 'Record<string, unknown>'
      case 'integer':
        return 'number'
      case 'string':
      case 'number':
      case 'boolean':
      case 'null':
        return schema.type
      default:
        return 'unknown'
    }
  }

  #object({ properties = {}, required = [] }: JsonSchema, indent: string): string {
    const inner = `${indent}  `
    const lines = Object.entries(properties).map(([name, type]) => {
      const note = type.description === undefined ? '' : comment(type.description, inner)
      return `${note}${inner}${key(name)}${required.includes(name) ? '' : '?'}: ${this.type(type, inner)}`
    })
    return lines.length === 0 ? 'Record<string, never>' : `{\n${lines.join('\n')}\n${indent}}`
  }
}
