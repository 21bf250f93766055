import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { skip } from '../../test/kit/browser.ts'
import { openDashboard, violations } from './kit/dashboard.ts'
import { PAGES, startShop, tooWide } from './kit/pages.ts'

const { api, ana } = await startShop()

/** All faults of several pages at once. */
const faults: string[] = []
const look = async (page: Page, what: string): Promise<void> => {
  for (const fault of await violations(page)) faults.push(`${what}: ${fault}`)
}

test('every page has its heading and no fault of accessibility, light and dark; at 390 px it can be read', {
  skip,
}, async () => {
  const { page, go, walk, troubles } = await openDashboard(api)
  await go('/')
  for (const [path, title] of [...PAGES, [`/users/${ana.user.id}`, 'ana@example.com'] as const]) {
    await walk(path)
    await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor()
    await page.locator('.loading').first().waitFor({ state: 'detached' })
    assert.equal(await page.locator('h1').count(), 1, path)
    await look(page, path)
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

test('dialogs, panels and the palette have none either; at 200 % zoom they fit', { skip }, async () => {
  const { page, go, walk } = await openDashboard(api)
  const dialogs: [path: string, button: string][] = [
    ['/tables', 'New table'],
    ['/tables/orders', 'View as'],
    ['/tables/orders', 'Build'],
    ['/tables/notes?tab=policies', 'New policy'],
    ['/users', 'Invite'],
    ['/webhooks', 'New webhook'],
    ['/keys', 'New key'],
    ['/jobs', 'New schedule'],
  ]
  faults.length = 0
  await go('/')
  for (const [path, name] of dialogs) {
    await walk(path)
    await page.getByRole('button', { name, exact: true }).first().click()
    await page.locator('dialog[open]').waitFor()
    await look(page, `${path} ${name}`)
    // 1440 × 900 at 200 %: half of both, twice the pixels of each.
    await page.setViewportSize({ width: 720, height: 450 })
    const wide = await tooWide(page, 'dialog[open]')
    if (wide > 1) faults.push(`${path} ${name} is ${wide} px too wide`)
    await page.setViewportSize({ width: 1440, height: 900 })
    await page.keyboard.press('Escape')
    await page.locator('dialog[open]').waitFor({ state: 'detached' })
  }
  await walk('/tables/orders?row=7')
  await page.getByRole('complementary', { name: 'Row 7' }).getByText('placed_at').first().waitFor()
  await look(page, 'row panel')
  await page.keyboard.press('Control+K')
  await page.getByRole('combobox', { name: /Find a page/ }).fill('ord')
  await page
    .getByRole('option', { name: /orders/ })
    .first()
    .waitFor()
  await look(page, 'palette')
  assert.deepEqual(faults, [])
})
