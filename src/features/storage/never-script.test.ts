import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const api = await startServer()
const get = (name: string, destination?: string) =>
  api.call(`GET /api/storage/open/${name}`, { headers: destination ? { 'sec-fetch-dest': destination } : {} })

test('an upload is never a script, a style or a worker on the origin of the API', async () => {
  await upload(api, '/api/storage/open', { name: 'a.js', content: 'alert(1)' })
  await upload(api, '/api/storage/open', { name: 'a.png', content: 'png' })
  const worklets = ['audioworklet', 'paintworklet', 'animationworklet']
  for (const destination of ['script', 'style', 'worker', 'sharedworker', 'serviceworker', ...worklets]) {
    for (const name of ['a.js', 'a.png', 'none.js']) {
      const { status, headers, body } = await get(name, destination)
      assert.deepEqual([status, body.error], [403, 'forbidden'], `${name} as ${destination}`)
      assert.match(headers.get('vary') ?? '', /Sec-Fetch-Dest/)
    }
  }
  for (const destination of ['document', 'image', 'empty', 'iframe', undefined]) {
    const { status, headers } = await get('a.png', destination)
    assert.equal(status, 200)
    assert.match(headers.get('vary') ?? '', /Sec-Fetch-Dest/)
    const same = await api.call('GET /api/storage/open/a.png', {
      headers: { 'if-none-match': headers.get('etag') ?? '' },
    })
    assert.equal(same.status, 304)
    assert.match(same.headers.get('vary') ?? '', /Sec-Fetch-Dest/)
  }
})

test('scripts, styles and wasm are served as plain text, which browsers without that header do not run', async () => {
  for (const [name, type, expected] of [
    ['a.js', '', 'text/plain; charset=utf-8'],
    ['b.mjs', '', 'text/plain; charset=utf-8'],
    ['c.css', '', 'text/plain; charset=utf-8'],
    ['d.wasm', '', 'text/plain'],
    ['e', 'application/x-javascript', 'text/plain'],
    ['f', 'text/javascript1.5', 'text/plain'],
    ['g.json', '', 'application/json'],
    ['h.html', '', 'text/html; charset=utf-8'],
    ['i.png', '', 'image/png'],
  ] as const) {
    const made = await upload(api, '/api/storage/open', { name, content: '1', type })
    const { headers } = await get(name)
    assert.equal(headers.get('content-type'), expected, name)
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
    if (expected.startsWith('text/plain')) assert.notEqual(made.body.contentType, expected)
  }
})

test('what an answer varies by besides stays', async () => {
  const listed = await startServer({ on: api, config: { 'server.cors_origins': ['https://app.example'] } })
  const answer = await fetch(`${listed.url}/api/storage/open/a.js`, { headers: { origin: 'https://app.example' } })
  assert.match(answer.headers.get('vary') ?? '', /Origin, Sec-Fetch-Dest/)
  await answer.text()
})
