import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../core/errors.ts'
import { builtins } from './builtin.ts'
import { plainTextOf } from './plain-text.ts'
import { checkTemplate, renderTemplate, templateKey } from './template.ts'

const html = (template: string, variables: Record<string, unknown> = {}) =>
  renderTemplate({ subject: 's', html: template }, variables).html
const subject = (template: string, variables: Record<string, unknown> = {}) =>
  renderTemplate({ subject: template, html: 'h' }, variables).subject

test('both spellings of a placeholder are filled, with or without spaces', () => {
  assert.equal(html('{{.Name}} {{Name}} {{ .Name }} {{  Name  }}', { Name: 'Ana' }), 'Ana Ana Ana Ana')
  assert.equal(html('{{N}} {{B}}', { N: 4.5, B: false }), '4.5 false')
})

test('values are escaped in the body and lose their line breaks in the subject', () => {
  const evil = `<img src=x onerror="alert('1')">&\r\nBcc: all@x.test`
  assert.equal(
    html('{{V}}', { V: evil }),
    '&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;\r\nBcc: all@x.test',
  )
  assert.equal(subject('Hi {{V}}\n', { V: 'a\r\nBcc: all@x.test' }), 'Hi aBcc: all@x.test')
})

test('anything but a name between the braces is a parse error', () => {
  for (const inner of [
    "constructor.constructor('return process')()",
    '#with this',
    '/with',
    '__proto__',
    'a.b',
    '..Name',
    '',
    ' ',
    '1a',
    'a b',
    '{Name',
    'Name|safe',
    'if .X',
    'template "x"',
    'é',
  ]) {
    assert.throws(
      () => checkTemplate({ subject: 's', html: `x {{${inner}}} y` }),
      /^Error: template parse error: unexpected "/,
    )
  }
  assert.throws(() => checkTemplate({ subject: 'a {{.B', html: 'h' }), /^Error: template parse error: unclosed \{\{$/)
})

test('other template languages are plain text', () => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: that is the attack
  for (const inert of ['${7*7}', '<%= 7*7 %>', '#{7*7}', '{% if 1 %}', '}} {', '[[x]]'])
    assert.equal(html(inert), inert)
})

test('inherited properties are missing variables', () => {
  for (const name of ['constructor', 'toString', 'hasOwnProperty', 'valueOf', 'Name']) {
    assert.throws(() => html(`{{${name}}}`), new RegExp(`template render error: missing variable "${name}"`))
  }
  assert.throws(() => html('{{polluted}}', JSON.parse('{"__proto__": {"polluted": "yes"}}')), /missing variable/)
  assert.throws(() => html('{{O}}', { O: { toString: 'x' } }), /variable "O" must be a string/)
  assert.throws(() => html('{{O}}', { O: null }), /missing variable "O"/)
})

test('a value is never read as a template again', () => {
  assert.equal(html('{{A}}', { A: '{{B}}', B: 'boom' }), '{{B}}')
})

test('templates have a size limit, and so has what they grow into', () => {
  assert.throws(() => checkTemplate({ subject: 'x'.repeat(1001), html: 'h' }), /template exceeds size limit/)
  assert.throws(() => checkTemplate({ subject: 's', html: 'x'.repeat(256_001) }), /template exceeds size limit/)
  checkTemplate({ subject: 'x'.repeat(1000), html: 'x'.repeat(256_000) })
  assert.throws(() => html('{{A}}'.repeat(50_000), { A: 'x'.repeat(500_000) }), /template exceeds size limit/)
})

/** A deadline, not a measure: what is not linear would take hours. */
const LINEAR = { timeout: 280_000 }

test('hostile templates take time in step with their length', LINEAR, () => {
  const hostile = [
    '{{'.repeat(128_000),
    '{{A}}'.repeat(51_200),
    `<a ${'{{A}}'.repeat(51_000)}`,
    `${'<a href="x" '.repeat(1_000)}${'{{A}}'.repeat(40_000)}`,
    '{'.repeat(256_000),
    `{{${' '.repeat(255_000)}x y}}`,
  ]
  for (const text of hostile) {
    try {
      html(text, { A: 'xx' })
    } catch (error) {
      assert.ok(error instanceof AppError)
    }
  }
})

test('a value has its place however long the tag is, but no address goes on for ever', () => {
  const link = (style: number, address = '') =>
    html(`<a style="${'x'.repeat(style)}" href="${address}{{A}}">{{A}}</a>`, { A: 'https://x.test' })
  for (const style of [10, 10_000]) assert.match(link(style), /href="https:\/\/x\.test">https:\/\/x\.test<\/a>$/)
  assert.match(link(10, 'x'.repeat(2_100)), /x#">https:\/\/x\.test<\/a>$/)
  assert.match(html('<a href="x<y>" href="x<{{A}}">', { A: 'y' }), /href="x<y">$/)
  assert.equal(html('<a href="java{{A}}">', { A: 'script:alert(1)' }), '<a href="java#">')
})

test('text is what the HTML says, with its links', async () => {
  const page =
    '<h1>Hello</h1><p>Ana &amp; Bo</p><p><a href="https://x.test/?token=a&amp;b=c">Open</a></p><style>p{}</style>'
  assert.equal(await plainTextOf(page), 'Hello\n\nAna & Bo\n\nOpen (https://x.test/?token=a&b=c)')
})

test('no HTML takes long to turn into text', LINEAR, async () => {
  const hostile = [
    '<b>'.repeat(85_000),
    '<b></i>'.repeat(36_000),
    '<table><tr><td>'.repeat(17_000),
    '<'.repeat(256_000),
    '&'.repeat(256_000),
    '<ul><li>'.repeat(30_000),
    '<a href="'.repeat(28_000),
    '<!--'.repeat(64_000),
    ' '.repeat(256_000),
    '<p>x</p>'.repeat(32_000),
  ]
  for (const page of hostile) assert.equal(typeof (await plainTextOf(page)), 'string')
})

test('the built-in templates render with the variables they name, and keep them', () => {
  for (const [key, builtin] of builtins) {
    const variables = Object.fromEntries(builtin.variables.map((name) => [name, `<${name}>`]))
    const rendered = renderTemplate(builtin, variables)
    for (const name of builtin.variables) assert.ok(rendered.html.includes(`&lt;${name}&gt;`), `${key} ${name}`)
    assert.equal(templateKey(key), key)
  }
})

test('template keys are dotted lower-case words', () => {
  for (const bad of [
    '',
    'auth',
    'Auth.x',
    'auth.',
    '.x',
    'auth..x',
    'auth.X',
    'auth.x y',
    'auth.x-y',
    `a.${'b'.repeat(300)}`,
  ]) {
    assert.throws(() => templateKey(bad), /invalid template key format/)
  }
  assert.equal(templateKey('shop.order2.sent_ok'), 'shop.order2.sent_ok')
})
