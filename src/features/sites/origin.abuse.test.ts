import assert from 'node:assert/strict'
import { get } from 'node:http'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true, 'admin.dashboard': false } })
const visit = (host: string, path: string): Promise<{ status: number; type: string }> =>
  new Promise((resolve, reject) => {
    get(api.url + path, { headers: { host }, agent: false }, (response) => {
      response.resume()
      resolve({ status: response.statusCode ?? 0, type: response.headers['content-type'] ?? '' })
    }).on('error', reject)
  })

test('no page of the server shares an origin with the scripts of a site', async () => {
  const pages = api.app.routes.filter(({ contract }) => {
    const answer = contract.answers[200]
    return answer && 'content' in answer && answer.content === 'text/html'
  })
  const paths = pages.map(({ path }) => path)
  assert.ok(paths.includes('/api/docs') && paths.includes('/account'))
  for (const path of [...paths, '/api/docs/', '/admin', '/admin/']) {
    for (const host of ['shop.localhost', 'SHOP.localhost.:8090']) {
      const { status, type } = await visit(host, path)
      assert.deepEqual([status, type], [404, 'application/json'], `${host}${path}`)
    }
  }
  const others = paths.filter((path) => !path.startsWith('/admin'))
  for (const path of others) assert.equal((await visit('localhost', path)).status, 200, path)
  assert.equal((await visit('shop.localhost', '/api/openapi.json')).status, 200)
})
