import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skip } from '../../test/kit/browser.ts'
import { openDashboard, violations } from './kit/dashboard.ts'
import { PAGES, startShop, tooWide } from './kit/pages.ts'

const { api, ana } = await startShop()

test('every page has its heading and no fault of accessibility; at 390 px it can be read', { skip }, async () => {
  const { page, go, walk, troubles } = await openDashboard(api)
  const faults: string[] = []
  await go('/')
  for (const [path, title] of [...PAGES, [`/users/${ana.user.id}`, 'ana@example.com'] as const]) {
    await walk(path)
    await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor()
    await page.locator('.loading').first().waitFor({ state: 'detached' })
    assert.equal(await page.locator('h1').count(), 1, path)
    // In both themes here, where most colours are; every page in both themes is long/zoom.test.ts.
    const seen = path === '/' ? { whole: true, dark: true } : { dark: path === '/tables/orders' }
    for (const fault of await violations(page, seen)) faults.push(`${path}: ${fault}`)
    await page.setViewportSize({ width: 390, height: 844 })
    const wide = await tooWide(page)
    if (wide > 1) faults.push(`${path} is ${wide} px too wide`)
    await page.setViewportSize({ width: 1440, height: 900 })
  }
  assert.deepEqual([faults, troubles], [[], []])
  await page.setViewportSize({ width: 390, height: 844 })
  await page.getByRole('button', { name: 'Menu' }).click()
  await page.getByRole('link', { name: 'Tables', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Tables' }).waitFor()
})

test('why a row is seen or not: each policy with its verdict, for a visitor and for a person', { skip }, async () => {
  const { page, go, walk, troubles } = await openDashboard(api)
  const [note] = await api.sql('select id from notes')
  await go(`/tables/notes?row=${note?.['id']}`)
  const panel = page.getByRole('complementary', { name: `Row ${note?.['id']}` })
  await panel.getByRole('tab', { name: 'Why?' }).click()
  const action = (name: string) => panel.locator('section', { has: page.getByRole('heading', { name, exact: true }) })
  await action('select').getByText('refused', { exact: true }).waitFor()
  await panel.getByLabel('For a visitor, without a token').uncheck()
  await panel.getByRole('combobox', { name: 'User' }).fill('ana')
  await page.getByRole('option', { name: 'ana@example.com' }).click()
  for (const name of ['select', 'update', 'delete']) {
    await action(name).getByText('allowed', { exact: true }).waitFor()
    await action(name).getByText('own_notes').first().waitFor()
  }
  await action('select').getByText('owner = svc.uid()').first().waitFor()
  assert.deepEqual(await action('select').getByText('true', { exact: true }).allTextContents(), ['true'])

  // A row that the viewed caller gets a 404 for leads there too.
  const bea = await api.signUp('bea@example.com')
  await walk(`/policies?tab=why&table=notes&row=${note?.['id']}`)
  await panel.waitFor({ state: 'detached' })
  await page.getByLabel('For a visitor, without a token').uncheck()
  await page.getByRole('combobox', { name: 'User' }).fill('bea')
  await page.getByRole('option', { name: bea.user.email }).click()
  await page
    .locator('section', { has: page.getByRole('heading', { name: 'select', exact: true }) })
    .getByText('refused', { exact: true })
    .waitFor()
  assert.deepEqual(troubles, [])
})

test('an OAuth client is made and changed with everything it has, and nothing typed is lost while its app loads', {
  skip,
}, async () => {
  await api.call('POST /api/admin/apps', { as: 'admin', json: { name: 'Shop', ownerUserId: ana.user.id } })
  const { page, go, troubles } = await openDashboard(api)
  await go('/keys?tab=clients')
  await page.getByRole('button', { name: 'New client' }).click()
  const dialog = page.getByRole('dialog', { name: 'New client' })
  await dialog.getByLabel('Name', { exact: true }).fill('Web')
  await dialog.getByLabel('Returns to').fill('https://web.example/cb https://web.example/cb2')
  await dialog.getByLabel('After a logout').fill('https://web.example/bye')
  await dialog.getByLabel('Tell of a logout').fill('https://web.example/out')
  await dialog.getByRole('button', { name: 'Create' }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'More of Web' }).click()
  await page.getByRole('menuitem', { name: 'Edit' }).click()
  const edited = page.getByRole('dialog', { name: 'Edit Web' })
  assert.equal(await edited.getByLabel('Tell of a logout').inputValue(), 'https://web.example/out')
  await edited.getByLabel('After a logout').fill('https://web.example/bye https://web.example/home')
  await edited.getByRole('button', { name: 'Save' }).click()
  await edited.waitFor({ state: 'detached' })
  const { body } = await api.call('GET /api/admin/oauth/clients', { as: 'admin' })
  const { name, redirectUris, postLogoutRedirectUris, backchannelLogoutUri } = body.items[0]
  assert.deepEqual(
    [name, redirectUris, postLogoutRedirectUris, backchannelLogoutUri],
    [
      'Web',
      ['https://web.example/cb', 'https://web.example/cb2'],
      ['https://web.example/bye', 'https://web.example/home'],
      'https://web.example/out',
    ],
  )
  assert.deepEqual(troubles, [])
})
