import type { JsonSchema } from '../../core/json-type.ts'

export const text = (value: unknown): string => JSON.stringify(value)
export const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : text(name))
export const targetOf = ({ $ref = '' }: JsonSchema): string => $ref.split('/').at(-1) ?? ''

/** A comment on a line of its own, or nothing. */
export const note = (words: string | undefined, indent: string): string =>
  words === undefined ? '' : `${indent}/** ${words.replaceAll('*/', '*\\/').replaceAll(/\s*\n\s*/g, ' ')} */\n`

type Direction = 'given' | 'returned'

/** Numbers with more digits than a double has are `bigint` or text; PostgreSQL also reads them as text. */
const EXACT: ReadonlyMap<string, Readonly<Record<Direction, string>>> = new Map([
  ['int64', { given: 'number | bigint | string', returned: 'number | bigint' }],
  ['decimal', { given: 'number | bigint | string', returned: 'number | bigint | string' }],
])

/** Of every object, so that one without such a property has something of another type in its place. */
const INHERITED: ReadonlySet<string> = new Set(
  'constructor toString toLocaleString valueOf hasOwnProperty isPrototypeOf propertyIsEnumerable'.split(' '),
)

/** Prints JSON Schema as TypeScript. */
export class Printer {
  /** Types that have a name, by their component. */
  readonly #names: ReadonlyMap<string, string>

  constructor(names: ReadonlyMap<string, string>) {
    this.#names = names
  }

  /** The type of values that are sent to the server. */
  given(schema: JsonSchema, indent: string): string {
    return this.#type(schema, indent, 'given')
  }

  returned(schema: JsonSchema, indent: string): string {
    return this.#type(schema, indent, 'returned')
  }

  #type(schema: JsonSchema, indent: string, direction: Direction): string {
    if (schema.$ref !== undefined) return this.#names.get(targetOf(schema)) ?? 'unknown'
    if (schema.anyOf) return schema.anyOf.map((one) => this.#type(one, indent, direction)).join(' | ')
    if (schema.enum) return schema.enum.map(text).join(' | ') || 'never'
    if (schema.properties) return this.#object(schema, indent, direction)
    switch (schema.type) {
      case 'array':
        return `(${this.#type(schema.items ?? {}, indent, direction)})[]`
      case 'object':
        return 'Record<string, unknown>'
      case 'integer':
      case 'number':
        return EXACT.get(schema.format ?? '')?.[direction] ?? 'number'
      case 'string':
      case 'boolean':
      case 'null':
        return schema.type
      default:
        return 'unknown'
    }
  }

  #object({ properties = {}, required = [] }: JsonSchema, indent: string, direction: Direction): string {
    const inner = `${indent}  `
    const needed = new Set(required)
    const lines = Object.entries(properties).map(([name, type]) => {
      const isOptional = !needed.has(name)
      const inherited = isOptional && INHERITED.has(name) ? ` | Object[${text(name)}]` : ''
      const shown = `${key(name)}${isOptional ? '?' : ''}: ${this.#type(type, inner, direction)}${inherited}`
      return `${note(type.description, inner)}${inner}${shown}`
    })
    return lines.length === 0 ? 'Record<never, never>' : `{\n${lines.join('\n')}\n${indent}}`
  }
}
