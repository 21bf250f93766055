import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const preview = async (htmlTemplate: string) => {
  const json = { subjectTemplate: 'Hello', htmlTemplate, variables: { name: '<b>' } }
  const { status, body } = await api.call('POST /api/admin/email/templates/app.hello/preview', { as: 'admin', json })
  assert.equal(status, 200)
  return body as { url: string; html: string }
}

test('a rendered mail is a page that is read once, in a sandbox', async () => {
  const { url, html } = await preview('<p>Hello {{name}}</p><script>alert(1)</script>')
  assert.match(url, /^\/api\/email\/previews\/[0-9a-f]{64}$/)
  const shown = await api.call(`GET ${url}` as 'GET /')
  assert.deepEqual([shown.status, shown.text], [200, html])
  const policy = shown.headers.get('content-security-policy') ?? ''
  assert.match(policy, /^sandbox; default-src 'none'/)
  assert.doesNotMatch(policy, /allow-|script-src|https?:/)
  assert.equal(shown.headers.get('cache-control'), 'no-store')
  assert.equal((await api.call(`GET ${url}` as 'GET /')).status, 404)
})

test('it is gone after a minute, and none is guessed', async () => {
  const { url } = await preview('<p>late</p>')
  await api.sql('update svc.mail_previews set expires_at = now()')
  assert.equal((await api.call(`GET ${url}` as 'GET /')).status, 404)
  for (const id of ['x', '0'.repeat(64), '%00']) {
    const { status } = await api.call(`GET /api/email/previews/${id}`)
    assert.ok(status === 404 || status === 400, id)
  }
})
