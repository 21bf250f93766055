import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Script } from 'node:vm'
import { skip, startBrowser } from '../../../test/kit/browser.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'admin.dashboard': false } })
await api.sql(`
  create table notes (id int primary key, title text not null, body text);
  create table hidden (id int primary key);
  revoke all on hidden from svc_anon, svc_authenticated`)
await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'create table reloaded (id int primary key)' } })

test('the page loads nothing from elsewhere and its script is whole', async () => {
  const { status, text, headers } = await api.call('GET /api/docs')
  assert.equal(status, 200)
  assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'/)
  assert.ok(!/https?:\/\//.test(text) && !/\bsrc=|<link/.test(text))
  const [, script = ''] = /<script type="module">([\s\S]*?)<\/script>/.exec(text) ?? []
  assert.match(script, /openapi\.json/)
  assert.doesNotThrow(() => new Script(script))
})

test('the page shows every endpoint, finds some by words, and shows a token what it may use', { skip }, async () => {
  const page = await (await startBrowser()).newPage()
  page.setDefaultTimeout(15_000)
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  await page.goto(`${api.url}/api/docs`)
  // Not the list of errors.
  const ENDPOINT = 'section details:has(> summary > code)'
  const shown = () => page.locator(ENDPOINT).count()
  const endpoints = async (as?: string) => {
    const { body } = await api.call('GET /api/openapi.json', as === undefined ? {} : { as })
    return Object.values<object>(body.paths).flatMap((item) => Object.keys(item)).length
  }
  const all = await endpoints()
  await eventually(async () => assert.equal(await shown(), all))

  await page.getByLabel('Search').fill('post collections/notes')
  const create = page.locator('section details').filter({ hasText: /^POST \/api\/collections\/notes / })
  await eventually(async () => assert.ok((await shown()) < all))
  await create.locator('summary').click()
  await eventually(async () => assert.match(await create.innerText(), /title: string\n +body\?: string \| null/))
  assert.match(await create.innerText(), /Answers 201/)

  await page.getByLabel('Search').fill('hidden')
  await eventually(async () => assert.equal(await shown(), 0))
  await page.getByText('Use a token').click()
  await page.getByLabel('Token').fill('nobodys')
  await page.getByRole('button').click()
  await eventually(async () =>
    assert.equal(await page.locator('form [role=alert]').innerText(), 'invalid or expired token'),
  )
  await page.getByLabel('Token').fill(await api.adminToken())
  await page.getByRole('button').click()
  const path = page.locator('section summary code').filter({ hasText: '/collections/hidden' })
  await eventually(async () => assert.ok((await path.count()) > 0))
  assert.equal(await shown(), await path.count(), 'what was searched for still is')
  await page.getByLabel('Search').fill('')
  const everything = await endpoints('admin')
  assert.ok(everything > all)
  await eventually(async () => assert.equal(await shown(), everything))

  await page.evaluate(`document.querySelectorAll('section summary').forEach((one) => one.click())`)
  const drawn = page.locator(`${ENDPOINT}[open] > :nth-child(2)`)
  await eventually(async () => assert.equal(await drawn.count(), everything))
  assert.deepEqual(complaints, [])
})
