import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { startServer } from '../../../test/kit.ts'

const api = await startServer({ config: { 'auth.oauth_redirect_url': 'https://app.x.test/?a="><script>' } })

test('the pages of mail links keep the token to themselves', async () => {
  for (const page of ['verify', 'reset', 'magic-link'] as const) {
    const { status, text, headers } = await api.call(`GET /auth/${page}?token=secret-token`)
    assert.equal(status, 200)
    assert.match(headers.get('content-type') ?? '', /^text\/html/)
    assert.equal(headers.get('referrer-policy'), 'no-referrer')
    assert.equal(headers.get('cache-control'), 'no-store')
    assert.equal(headers.get('x-frame-options'), 'DENY')
    assert.ok(!text.includes('secret-token') && !text.includes('"><script>'))

    const policy = headers.get('content-security-policy') ?? ''
    assert.match(policy, /default-src 'none'/)
    assert.ok(!policy.includes('unsafe'))
    for (const [tag, directive] of [
      ['script', 'script-src'],
      ['style', 'style-src'],
    ] as const) {
      const inline = new RegExp(`<${tag}>([^]*?)</${tag}>`).exec(text)?.[1] ?? ''
      const hash = createHash('sha256').update(inline).digest('base64')
      assert.ok(policy.includes(`${directive} 'sha256-${hash}'`), directive)
    }
  }
})

test('opening a page spends nothing', async () => {
  const before = await api.sql('select count(*) from svc.mail_tokens')
  await api.signUp('scanner@x.test')
  await api.call('GET /auth/verify?token=x')
  const after = await api.sql('select count(*) from svc.mail_tokens')
  assert.equal(Number(after[0].count), Number(before[0].count) + 1)
})
