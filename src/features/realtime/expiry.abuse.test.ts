import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { skip, startBrowser } from '../../../test/kit/browser.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

/** The example of the documentation, as it stands there. */
const [, example = ''] = /```js\n(function listen\(.*?)```/s.exec(readFileSync('docs/api.md', 'utf8')) ?? []

test('a page that listens as the documentation shows outlives its token and misses nothing', { skip }, async () => {
  const api = await startServer({ config: { 'auth.token_duration': 61 } }) // told at once, nearly
  const lasting = await startServer({ on: api })
  await api.sql('create table posts (id int primary key)')
  const first = await api.signUp('ana@x.test')
  const next = await lasting.signUp('bo@x.test')
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/posts', { as: first.token })).status, 200),
  )
  const write = async (id: number) => {
    assert.equal((await lasting.call('POST /api/collections/posts', { as: next.token, json: { id } })).status, 201)
  }

  const page = await (await startBrowser()).newPage()
  await page.goto(`${api.url}/health`)
  let refreshes = 0
  await page.exposeFunction('freshToken', async () => {
    refreshes++
    await write(1) // while the page has one foot in each stream
    return next.token
  })
  const opened: string[] = []
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url())
    if (pathname === '/api/realtime') opened.push(searchParams.get('token') ?? '')
  })
  await page.evaluate(`
    window.shown = []
    window.show = ({ record }) => window.shown.push(record.id)
    ${example}
    listen(${JSON.stringify(first.token)})`)
  const shown = (ids: number[]) => eventually(async () => assert.deepEqual(await page.evaluate('window.shown'), ids))

  await shown([1])
  await eventually(() => assert.deepEqual(opened, [first.token, next.token]))
  await write(2)
  await shown([1, 2])
  // The token of the first stream is dead now. Whoever still hung on to it would be gone.
  await api.call('POST /api/auth/logout', { json: { refreshToken: first.refreshToken } })
  assert.equal((await api.call('GET /api/auth/me', { as: first.token })).status, 401)
  await write(3)
  await shown([1, 2, 3])
  assert.deepEqual([refreshes, opened.length], [1, 2])
})
