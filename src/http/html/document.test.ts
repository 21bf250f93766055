import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { Script } from 'node:vm'
import { htmlDocument } from './document.ts'
import { signInScripts } from './sign-in-script.ts'

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

test('a page runs its own script and style, and no others', () => {
  const { content, headers = {} } = htmlDocument({ title: 't', body: '<p>b</p>', scripts: ['const a = 1', 'a'] })
  const [, script = ''] = /<script type="module">([\s\S]*?)<\/script>/.exec(String(content)) ?? []
  const [, style = ''] = /<style>([\s\S]*?)<\/style>/.exec(String(content)) ?? []
  assert.equal(script, 'const a = 1\na')
  const policy = headers['Content-Security-Policy'] ?? ''
  assert.match(policy, /^default-src 'none'; /)
  assert.ok(policy.includes(`script-src ${hashOf(script)};`) && policy.includes(`style-src ${hashOf(style)};`))
  assert.ok(policy.includes("frame-ancestors 'none'") && !policy.includes('unsafe'))
  assert.equal(headers['Referrer-Policy'], 'no-referrer')
  assert.equal(headers['Cache-Control'], 'no-store')
})

test('titles and data cannot leave their place', () => {
  const hostile = '"><script>alert(1)</script>'
  const { content } = htmlDocument({ title: hostile, body: '', scripts: [], data: { a: hostile } })
  assert.ok(!String(content).includes('<script>'))
})

test('the scripts of a page are JavaScript that HTML cannot cut short', () => {
  const text = signInScripts.join('\n')
  assert.doesNotThrow(() => new Script(text))
  assert.ok(!text.includes('</') && !text.includes('<!--'))
  const shared = readdirSync('src/http/html').filter((name) => name.endsWith('-script.ts'))
  assert.equal(shared.length, signInScripts.length)
})
