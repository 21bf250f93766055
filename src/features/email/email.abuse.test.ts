import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { renderTemplate } from './template.ts'

const render = (html: string, variables: Record<string, string>) =>
  renderTemplate({ subject: 's', html }, variables).html

test('a value in href or src is a safe address or #', () => {
  const hostile = [
    'javascript:alert(1)',
    ' JavaScript:alert(1)',
    'java\tscript:alert(1)',
    '\u0001javascript:alert(1)',
    'data:text/html,x',
    'vbscript:x',
    'file:///etc/passwd',
  ]
  for (const x of hostile) {
    assert.equal(render('<a href="{{.x}}">', { x }), '<a href="#">', x)
    assert.equal(render("<img alt='a' SRC = '{{x}}'>", { x }), "<img alt='a' SRC = '#'>", x)
    assert.equal(render('<a href={{x}}>', { x }), '<a href=#>', x)
  }
  assert.equal(render('<a href="{{a}}{{b}}">', { a: 'java', b: 'script:x' }), '<a href="java#">')
  assert.equal(render('<a href="{{a}}:alert(1)">', { a: 'javascript' }), '<a href="#:alert(1)">')
  for (const x of ['https://x.test/?a=b', 'http://x.test', 'mailto:a@x.test', 'tel:+49', '/path', '?q=a:b', 'page']) {
    assert.equal(render('<a href="{{x}}">', { x }), `<a href="${x}">`)
  }
  const x = 'javascript:alert(1)'
  for (const before of [
    '<a title="a > b" href="',
    `<img alt='>' src="`,
    '<a/href="',
    '<a title="x"href="',
    '<a href = \n"',
    '<!-- a="> --><a href="',
    '<style>a { content: \'<a b="\' }</style><a href="',
  ])
    assert.equal(render(`${before}{{x}}">`, { x }), `${before}#">`)
  assert.equal(render('<a title="href=" alt="{{x}}">', { x }), `<a title="href=" alt="${x}">`)
  assert.equal(render('<a href="https://x.test/{{x}}">', { x: 'a:b' }), '<a href="https://x.test/a:b">')
  // Nothing becomes an attribute of its own.
  assert.equal(render('<p title={{x}}>', { x: 'a onclick=b' }), '<p title=a&#32;onclick&#61;b>')
  assert.equal(render('<p {{x}}>', { x: 'onclick=b' }), '<p #>')
  assert.equal(render('<p>href="x" {{x}}</p>', { x: 'note: this' }), '<p>href="x" note: this</p>')
})

test('mail goes to addresses that can be', async () => {
  const api = await startServer()
  for (const to of ['user@nodot', 'user@x.test.', '@x.test', 'a@b@', 'Ana <a@x.test>', 'a@x.test,b@x.test']) {
    const json = { templateKey: 'auth.magic_link', to, variables: { AppName: 'x', ActionURL: 'https://x.test' } }
    const { status, body } = await api.call('POST /api/admin/email/send', { as: 'admin', json })
    assert.deepEqual([status, body.message], [400, 'invalid email address'], to)
  }
})
