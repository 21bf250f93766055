import type { JsonSchema } from '../../core/json-type.ts'
import { key, note, Printer, targetOf, text } from './printer.ts'

type Media = { content?: { 'application/json'?: { schema?: JsonSchema } } }
type Operation = { description?: string; requestBody?: Media; responses: Readonly<Record<string, Media>> }
/** The extension `x-table` of a row. */
type TableFacts = {
  key: readonly string[]
  unique: readonly string[]
  relations: Readonly<Record<string, { table: string; many: boolean }>>
}
type Component = JsonSchema & { 'x-table'?: TableFacts }
export type Document = {
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  components: { schemas: Readonly<Record<string, Component>> }
}

const ENUM = 'Enum.'
const INDENT = '      '

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
    const row = get && rowOf(bodyOf(get.responses['200']))
    return { name, row, insert: post && bodyOf(post.requestBody), update: patch && bodyOf(patch.requestBody) }
  })
  const enums = Object.entries(schemas).filter(([name]) => name.startsWith(ENUM))

  const print = new Printer(
    new Map<string, string>([
      ...tables.flatMap(({ name, row }): [string, string][] =>
        row ? [[targetOf(row), `Database['tables'][${text(name)}]['Row']`]] : [],
      ),
      ...enums.map(([name]): [string, string] => [name, `Database['enums'][${text(name.slice(ENUM.length))}]`]),
    ]),
  )
  const known = new Set(tables.map(({ name }) => name))

  const members = {
    tables: tables.map(({ name, row, insert, update }) => {
      const shown = row && schemas[targetOf(row)]
      const facts = shown?.['x-table']
      const given = (type: JsonSchema | undefined): string =>
        type ? print.given(schemas[targetOf(type)] ?? type, INDENT) : 'never'
      const types = [
        `Row: ${shown ? print.returned(shown, INDENT) : 'never'}`,
        `Insert: ${given(insert)}`,
        `Update: ${given(update)}`,
        `Key: ${shown && facts ? keyType(print, shown, facts) : 'never'}`,
        `Unique: ${facts?.unique.map(text).join(' | ') || 'never'}`,
        `Relations: ${relations(facts, known)}`,
      ]
      const lines = types.map((line) => `${INDENT}${line}\n`).join('')
      return `${note(shown?.description, '    ')}    ${key(name)}: {\n${lines}    }`
    }),
    enums: enums.map(([name, type]) => `    ${key(name.slice(ENUM.length))}: ${print.returned(type, '    ')}`),
    functions: named('/api/rpc/').map(({ name, item: { post } }) => {
      const args = print.given(bodyOf(post?.requestBody) ?? {}, INDENT)
      const result = returnedBy(bodyOf(post?.responses['200']))
      const returns = [
        ...(result ? [print.returned(result, INDENT)] : []),
        ...(post?.responses['204'] ? ['undefined'] : []),
      ]
      const lines = `      Args: ${args}\n      Returns: ${returns.join(' | ')}\n`
      return `${note(post?.description, '    ')}    ${key(name)}: {\n${lines}    }`
    }),
  }
  const body = Object.entries(members).map(([group, lines]) =>
    lines.length === 0 ? `  ${group}: Record<never, never>` : `  ${group}: {\n${lines.join('\n')}\n  }`,
  )
  return `// Made by \`svc types\`.\nexport interface Database {\n${body.join('\n')}\n}\n`
}

const bodyOf = (media: Media | undefined): JsonSchema | undefined => media?.content?.['application/json']?.schema

const isDryRun = (type: JsonSchema): boolean => targetOf(type) === 'DryRun'

/** What a function returns in a call that is no dry run. */
function returnedBy(answer: JsonSchema = {}): JsonSchema | undefined {
  const [only, ...others] = (answer.anyOf ?? [answer]).filter((type) => !isDryRun(type))
  return others.length > 0 && only ? { anyOf: [only, ...others] } : only
}

/** The type of a key of one column, or a tuple. */
function keyType(print: Printer, { properties = {} }: JsonSchema, { key: columns }: TableFacts): string {
  const types = columns.map((column) => print.returned(properties[column] ?? {}, INDENT))
  if (types.length === 0) return 'never'
  return types.length === 1 ? types.join() : `[${types.join(', ')}]`
}

/** Only to tables that are in the file. */
function relations(facts: TableFacts | undefined, known: ReadonlySet<string>): string {
  const shown = Object.entries(facts?.relations ?? {}).filter(([, { table }]) => known.has(table))
  const lines = shown.map(
    ([name, { table, many }]) => `${INDENT}  ${key(name)}: { table: ${text(table)}; many: ${many} }\n`,
  )
  return lines.length === 0 ? 'Record<never, never>' : `{\n${lines.join('')}${INDENT}}`
}
