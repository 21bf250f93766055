import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { atEnd } from '../../../test/kit/at-end.ts'
import { startServer } from '../../../test/kit/kit.ts'

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; frame-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; worker-src 'self'; require-trusted-types-for 'script'; trusted-types savanna"

const root = mkdtempSync(join(tmpdir(), 'svc-dashboard-'))
atEnd(() => rmSync(root, { recursive: true, force: true }))
const folder = join(root, 'dashboard')
mkdirSync(join(folder, 'assets'), { recursive: true })
writeFileSync(join(root, 'secret.js'), 'outside')
function put(path: string, text: string) {
  writeFileSync(join(folder, path), text)
  writeFileSync(join(folder, `${path}.br`), brotliCompressSync(text))
  writeFileSync(join(folder, `${path}.gz`), gzipSync(text))
}
const SHELL = '<!doctype html><title>Savanna</title><script type="module" src="/admin/assets/main-1a2b.js"></script>'
put('index.html', SHELL)
put('assets/main-1a2b.js', 'console.log("main")')
put('assets/main-1a2b.css', 'body { margin: 0 }')

const api = await startServer({ dashboardFolder: folder })
const off = await startServer({ on: api, dashboardFolder: folder, config: { 'admin.dashboard': false } })
const unbuilt = await startServer({ on: api, dashboardFolder: join(root, 'missing') })

test('every path under /admin/ is the shell, uncached and with its policy', async () => {
  for (const path of ['', 'tables', 'tables/a%20b%22.c', 'users/1/', 'no/such/page', 'sql?x=1'] as const) {
    const { status, text, headers } = await api.call(`GET /admin/${path}`)
    assert.deepEqual([status, text], [200, SHELL], path)
    assert.equal(headers.get('content-type'), 'text/html; charset=utf-8')
    assert.equal(headers.get('cache-control'), 'no-store')
    assert.equal(headers.get('content-security-policy'), POLICY)
  }
  const bare = await api.call('GET /admin')
  assert.deepEqual([bare.status, bare.headers.get('location')], [302, '/admin/'])
  assert.equal((await api.call('POST /admin/')).status, 405)
})

test('assets are immutable and come as small as the client takes them', async () => {
  const plain = await api.call('GET /admin/assets/main-1a2b.js', { headers: { 'accept-encoding': 'identity' } })
  assert.equal(plain.headers.get('cache-control'), 'public, max-age=31536000, immutable')
  assert.match(plain.headers.get('content-type') ?? '', /^text\/javascript/)
  assert.equal(plain.headers.get('content-encoding'), null)
  for (const [accepted, encoding] of [
    ['gzip, br', 'br'],
    ['gzip', 'gzip'],
    ['br;q=0, gzip', 'gzip'],
  ] as const) {
    const { text, headers } = await api.call('GET /admin/assets/main-1a2b.js', {
      headers: { 'accept-encoding': accepted },
    })
    assert.equal(headers.get('content-encoding'), encoding)
    assert.match(headers.get('vary') ?? '', /Accept-Encoding/)
    assert.equal(headers.get('content-security-policy'), POLICY, 'a worker has the policy of its own answer')
    assert.equal(text, 'console.log("main")')
  }
})

test('a file that is not there is 404 and no shell, and none outside the folder is read', async () => {
  for (const name of [
    'gone.js',
    'main-1a2b.js.br',
    '..%2Findex.html',
    '..%2f..%2fsecret.js',
    '.hidden',
    '%00',
    'a/b.js',
  ]) {
    const { status, text } = await api.call(`GET /admin/assets/${name}`)
    assert.ok(status === 404 || status === 400 || (name === 'a/b.js' && text === SHELL), `${name} ${status}`)
    assert.ok(!text.includes('outside'))
  }
})

test('without the dashboard there is a sentence, and the plain reference stays', async () => {
  for (const path of ['/admin', '/admin/', '/admin/tables', '/admin/assets/main-1a2b.js'] as const) {
    const { status, body } = await off.call(`GET ${path}`)
    assert.deepEqual([status, body.message], [404, 'the dashboard is switched off'])
  }
  const missing = await unbuilt.call('GET /admin/')
  assert.deepEqual([missing.status, missing.body.message], [404, 'the dashboard is not built: run npm run build'])
  for (const server of [off, unbuilt]) assert.equal((await server.call('GET /api/docs')).status, 200)
  const docs = await api.call('GET /api/docs')
  assert.deepEqual([docs.status, docs.headers.get('location')], [302, '/admin/api'])
})

test('the address itself leads a person to the dashboard and tells a program what this is', async () => {
  const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
  const browser = await api.call('GET /', { headers: { accept } })
  assert.deepEqual([browser.status, browser.headers.get('location')], [302, '/admin/'])
  assert.match(browser.headers.get('vary') ?? '', /Accept/)
  for (const accepted of ['*/*', 'application/json', 'text/html;q=0, */*']) {
    const { status, body } = await api.call('GET /', { headers: { accept: accepted } })
    assert.equal(status, 200)
    assert.deepEqual(Object.keys(body), ['name', 'version', 'docs'])
    assert.match(body.docs, /^http:\/\/localhost:\d+\/api\/docs$/)
  }
  assert.equal((await off.call('GET /', { headers: { accept } })).status, 200)
  const icon = await api.call('GET /favicon.ico')
  assert.deepEqual([icon.status, icon.headers.get('content-type')], [200, 'image/png'])
})

test("a site's host has no dashboard", async () => {
  const statusAt = (path: string) =>
    new Promise<number | undefined>((resolve, reject) => {
      const { port } = new URL(api.url)
      get({ host: '127.0.0.1', port, path, headers: { host: 'shop.localhost', accept: 'text/html' } }, (response) => {
        response.resume()
        resolve(response.statusCode)
      }).on('error', reject)
    })
  for (const path of ['/admin', '/admin/', '/admin/tables', '/admin/assets/main-1a2b.js', '/', '/favicon.ico']) {
    assert.equal(await statusAt(path), 404, path)
  }
})
