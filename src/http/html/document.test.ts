import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { Script } from 'node:vm'
import type { PageName } from '../../pages/shared/page-data.ts'
import { htmlDocument } from './document.ts'
import { pageScript } from './page-script.ts'

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

test('a page runs its own script and style, and no others', async () => {
  const { content, headers = {} } = await htmlDocument({ page: 'docs', title: 't', body: '<p>b</p>', data: {} })
  const [, script = ''] = /<script type="module">([\s\S]*?)<\/script>/.exec(String(content)) ?? []
  const [, style = ''] = /<style>([\s\S]*?)<\/style>/.exec(String(content)) ?? []
  assert.equal(script, await pageScript('docs'))
  const policy = headers['Content-Security-Policy'] ?? ''
  assert.match(policy, /^default-src 'none'; /)
  assert.ok(policy.includes(`script-src ${hashOf(script)};`) && policy.includes(`style-src ${hashOf(style)};`))
  assert.ok(policy.includes("frame-ancestors 'none'") && !policy.includes('unsafe'))
  assert.equal(headers['Referrer-Policy'], 'no-referrer')
  assert.equal(headers['Cache-Control'], 'no-store')
})

test('titles and data cannot leave their place', async () => {
  const hostile = '"><script>alert(1)</script>'
  const data = { post: hostile, done: '', returnsTo: hostile }
  const { content } = await htmlDocument({ page: 'mail-link', title: hostile, body: '', data })
  assert.match(String(content), /data-returns-to="&#34;&#62;&#60;script/)
  assert.ok(!String(content).includes('<script>'))
})

test('the scripts of pages are JavaScript that HTML cannot cut short', async () => {
  const names = readdirSync('src/pages').flatMap((file) => /^(.+)\.ts$/.exec(file)?.[1] ?? [])
  for (const name of names) {
    const text = await pageScript(name as PageName)
    assert.doesNotThrow(() => new Script(text))
    assert.doesNotMatch(text, /<\/script|<!--/i)
  }
})
