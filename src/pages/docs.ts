import reference from '../../docs/errors.md'
import type { JsonSchema } from '../core/json-type.ts'
import { send } from './shared/api.ts'
import { alertLine, el, find, focusOn, section, soft } from './shared/dom.ts'
import { field, form, labelled, messageOf, submit } from './shared/form.ts'

// The API reference, rendered from the OpenAPI document.

type Parameter = { $ref?: string; name: string; in: string; description?: string; schema: JsonSchema }
type Content = { content?: Record<string, { schema: JsonSchema }> }
type Operation = {
  summary: string
  tags: [string]
  parameters?: Parameter[]
  requestBody?: Content
  responses: Record<string, Content>
}
type OpenApi = {
  paths: Record<string, Record<string, Operation>>
  components: { parameters: Record<string, Parameter>; schemas: Record<string, JsonSchema> }
}
type Entry = { title: string; words: string; operation: Operation; document: OpenApi }

let entries: Entry[] = []

const search = el('input', { type: 'search', oninput: draw })
const list = el('div')
const alert = alertLine()
const tokenForm = form(
  ({ token = '' }) => load(token.trim()),
  field('Token', { name: 'token', autocomplete: 'off' }),
  submit('Show what this token may use'),
)
find('main').append(
  el('details', {}, el('summary', {}, 'Use a token'), tokenForm),
  labelled('Search', search),
  alert,
  list,
  errorSection(),
)
openFailure()
addEventListener('hashchange', openFailure)
load('').catch((error) => {
  alert.textContent = messageOf(error)
})

async function load(bearer: string): Promise<void> {
  const document = await send<OpenApi>('GET', '/api/openapi.json', bearer === '' ? {} : { bearer })
  entries = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => {
      const title = `${method.toUpperCase()} ${path}`
      return { title, words: `${title} ${operation.summary} ${operation.tags[0]}`.toLowerCase(), operation, document }
    }),
  )
  draw()
}

function draw(): void {
  const words = search.value.toLowerCase().split(' ')
  const groups = new Map<string, HTMLElement>()
  for (const entry of entries.filter((one) => words.every((word) => one.words.includes(word)))) {
    const [tag] = entry.operation.tags
    const group = groups.get(tag) ?? section(tag)
    group.append(drawEntry(entry))
    groups.set(tag, group)
  }
  list.replaceChildren(...groups.values())
}

function drawEntry({ title, operation, document }: Entry): HTMLElement {
  const node = el('details', {}, el('summary', {}, el('code', {}, title), ' ', operation.summary))
  // Rendered when opened, because there may be thousands.
  node.addEventListener('toggle', () => {
    if (node.open && node.childElementCount === 1) node.append(...contractOf(operation, document))
  })
  return node
}

/** What each code of a failure means; `doc_url` leads to its line. */
function errorSection(): HTMLElement {
  const lines = reference.map(({ error, status, when }) =>
    el('p', { id: error }, el('code', {}, error), ` ${status}: ${when || error.replaceAll('_', ' ')}`),
  )
  return section('Errors', el('details', {}, el('summary', {}, `${lines.length} codes of failures`), ...lines))
}

function openFailure(): void {
  const line = reference.some(({ error }) => error === location.hash.slice(1))
    ? document.getElementById(location.hash.slice(1))
    : null
  const around = line?.closest('details')
  if (!line || !around) return
  around.open = true
  focusOn(line)
  line.scrollIntoView({ block: 'center' })
}

function contractOf({ parameters = [], requestBody, responses }: Operation, document: OpenApi): Node[] {
  const answers = Object.entries(responses).filter(([status]) => status !== 'default')
  return [
    ...(parameters.length > 0 ? [el('ul', {}, ...parameters.map((one) => parameterLine(one, document)))] : []),
    ...(requestBody ? typeBlock('Body', requestBody, document) : []),
    ...answers.flatMap(([status, answer]) => typeBlock(`Answers ${status}`, answer, document)),
  ]
}

function parameterLine(given: Parameter, document: OpenApi): HTMLElement {
  const one = (given.$ref && document.components.parameters[nameOf(given.$ref)]) || given
  const note = one.description || one.schema.description
  return el(
    'li',
    {},
    el('div', {}, el('code', {}, one.name), ` ${typeText(one.schema)}`),
    el('span', { class: 'soft' }, note ? `${one.in}: ${note}` : one.in),
  )
}

function typeBlock(title: string, { content = {} }: Content, document: OpenApi): Node[] {
  const schema = Object.values(content)[0]?.schema
  const shown = schema?.$ref ? document.components.schemas[nameOf(schema.$ref)] : schema
  return [soft(title), ...(shown ? [el('pre', { class: 'type' }, typeText(shown))] : [])]
}

const nameOf = (ref: string): string => ref.slice(ref.lastIndexOf('/') + 1)

/** A type in TypeScript-like notation. */
function typeText(schema: JsonSchema, depth = 0): string {
  if (schema.$ref) return nameOf(schema.$ref)
  if (schema.anyOf) return schema.anyOf.map((one) => typeText(one, depth)).join(' | ')
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(' | ')
  if (schema.type === 'array') return `${schema.items ? typeText(schema.items, depth) : ''}[]`
  if (schema.properties) return objectText(schema, depth)
  return schema.format ?? [schema.type ?? 'any'].flat().join(' | ')
}

function objectText({ properties = {}, required = [] }: JsonSchema, depth: number): string {
  const space = '  '.repeat(depth)
  const lines = Object.entries(properties).map(([name, inner]) => {
    const mark = required.includes(name) ? '' : '?'
    const note = inner.description ? `  // ${inner.description}` : ''
    return `${space}  ${name}${mark}: ${typeText(inner, depth + 1)}${note}\n`
  })
  return `{\n${lines.join('')}${space}}`
}
