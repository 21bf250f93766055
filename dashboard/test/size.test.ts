import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skip } from '../../test/kit/browser.ts'
import { openDashboard, startDashboard } from './kit/dashboard.ts'

const api = await startDashboard()

test('the first view is at most 250 kB gzipped, all of it from this server', { skip }, async () => {
  const { page, go, signIn, troubles } = await openDashboard(api, { signedIn: false })
  const assets = new Set<string>()
  page.on('request', (request) => {
    if (request.url().includes('/admin/')) assets.add(request.url())
  })
  await go('/')
  await signIn()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.getByRole('heading', { name: 'First steps' }).waitFor()
  const sizes = await Promise.all(
    [...assets].map(async (url) => {
      const response = await fetch(url, { headers: { 'accept-encoding': 'gzip' } })
      await response.arrayBuffer()
      return Number(response.headers.get('content-length'))
    }),
  )
  const total = sizes.reduce((sum, size) => sum + size, 0)
  assert.ok(total > 50_000 && total <= 250_000, `${total} bytes in ${assets.size} files`)
  assert.deepEqual(troubles, [])
})

test('a wrong password is said in a line, and what was typed stays', { skip }, async () => {
  const { page, go } = await openDashboard(api, { signedIn: false })
  await go('/tables')
  await page.getByLabel('Password').fill('wrong')
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.getByRole('alert').getByText('invalid password').waitFor()
  assert.equal(await page.getByLabel('Password').inputValue(), 'wrong')
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length), 0)
})

test('the reference opens without signing in', { skip }, async () => {
  const { page, go } = await openDashboard(api, { signedIn: false })
  await go('/api')
  await page.getByRole('heading', { level: 1, name: 'API' }).waitFor()
  await page.getByLabel('Find a call').fill('health')
  await page
    .getByRole('link', { name: /GET.*health/ })
    .first()
    .click()
  await page.getByRole('button', { name: 'Try it' }).click()
  await page.getByRole('region', { name: 'Answer' }).first().getByText('"status": "ok"').waitFor()
})
