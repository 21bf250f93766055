import { escapeHtml, htmlDocument } from '../../http/html/document.ts'
import { domScript } from '../../http/html/dom-script.ts'
import type { Reply } from '../../http/route.ts'

/** The reference as a page: drawn in the browser from the document that programs read, with nothing from elsewhere. */
export const docsPage = (appName: string): Reply =>
  htmlDocument({
    title: `${appName} API`,
    body: `<h1>${escapeHtml(appName)} API</h1>
<p class="soft">The machine-readable form is <a href="/api/openapi.json">/api/openapi.json</a>. With a token it shows what that caller may use.</p>
<main></main>`,
    scripts: [domScript, docsScript],
  })

/** Text for browsers, as dom-script.ts. */
const docsScript = `
const home = document.querySelector('main')
const list = el('div')
let operations = []

const nameOf = (ref) => ref.split('/').pop()
/** A type in one line, close to how TypeScript writes it. */
function typeText(schema, depth = 0) {
  if (!schema) return ''
  if (schema.$ref) return nameOf(schema.$ref)
  if (schema.anyOf) return schema.anyOf.map((one) => typeText(one, depth)).join(' | ')
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(' | ')
  if (schema.type === 'array') return typeText(schema.items, depth) + '[]'
  if (schema.properties) return objectText(schema, depth)
  return (schema.format || schema.type || 'any')
}
function objectText(schema, depth) {
  const space = '  '.repeat(depth + 1)
  const lines = Object.entries(schema.properties).map(([name, inner]) => {
    const mark = (schema.required || []).includes(name) ? '' : '?'
    const note = inner.description ? '  // ' + inner.description : ''
    return space + name + mark + ': ' + typeText(inner, depth + 1) + note
  })
  return '{\\n' + lines.join('\\n') + '\\n' + '  '.repeat(depth) + '}'
}

function parameterLine(document, given) {
  const one = given.$ref ? document.components.parameters[nameOf(given.$ref)] : given
  const note = one.description || one.schema.description || ''
  return el('li', null, el('div', null, el('code', null, one.name), ' ' + typeText(one.schema)),
    el('span', { class: 'soft' }, one.in + (note ? ': ' + note : '')))
}

const schemaOf = (part) => part && part.content && Object.values(part.content)[0].schema
const block = (title, schema, document) => {
  const shown = schema && schema.$ref ? document.components.schemas[nameOf(schema.$ref)] : schema
  return shown ? [el('p', { class: 'soft' }, title), el('pre', { class: 'type' }, typeText(shown))] : [el('p', { class: 'soft' }, title)]
}

function details({ method, path, operation, document }) {
  const parameters = (operation.parameters || []).map((one) => parameterLine(document, one))
  const answers = Object.entries(operation.responses).filter(([status]) => status !== 'default')
  return [
    ...(parameters.length ? [el('ul', null, ...parameters)] : []),
    ...(operation.requestBody ? block('Body', schemaOf(operation.requestBody), document) : []),
    ...answers.flatMap(([status, one]) => block('Answers ' + status, schemaOf(one), document)),
  ]
}

function entry(one) {
  const node = el('details', null, el('summary', null, el('code', null, one.method + ' ' + one.path), ' ', one.operation.summary))
  // Only what is opened is drawn: there may be thousands.
  node.addEventListener('toggle', () => {
    if (node.open && node.childElementCount === 1) node.append(...details(one))
  })
  return node
}

function draw() {
  const words = search.querySelector('input').value.toLowerCase().split(' ')
  const groups = new Map()
  for (const one of operations) {
    if (!words.every((word) => one.text.includes(word))) continue
    const tag = one.operation.tags[0]
    groups.set(tag, [...(groups.get(tag) || []), one])
  }
  list.replaceChildren(...[...groups].map(([tag, ones]) => el('section', null, el('h2', null, tag), ...ones.map(entry))))
}

async function load(token) {
  const response = await fetch('/api/openapi.json', token ? { headers: { authorization: 'Bearer ' + token } } : {})
  const document = await response.json()
  if (!response.ok) throw new Error(document.message)
  operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      method: method.toUpperCase(), path, operation, document,
      text: (method + ' ' + path + ' ' + operation.summary + ' ' + operation.tags[0]).toLowerCase(),
    })))
  draw()
}

const search = field('Search', { type: 'search', oninput: draw })
const tokenForm = form(({ token }) => load(token.trim()), field('Token', { name: 'token', autocomplete: 'off' }),
  el('button', null, 'Show what this token may use'))
const failed = el('p', { role: 'alert' })
home.append(el('details', null, el('summary', null, 'Use a token'), tokenForm), search, failed, list)
load('').catch((error) => { failed.textContent = error.message })
`
