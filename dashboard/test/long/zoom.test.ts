import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skip } from '../../../test/kit/browser.ts'
import { openDashboard, typeInto, violations } from '../kit/dashboard.ts'
import { eachDialog, PAGES, startShop, tooWide } from '../kit/pages.ts'

const { api } = await startShop()

test('at 200 % zoom every page can be read, nothing but tables scrolls sideways, and rows can be edited', {
  skip,
}, async () => {
  const { page, go, walk } = await openDashboard(api, { viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 })
  const faults: string[] = []
  await go('/')
  for (const [path, title] of PAGES) {
    await walk(path)
    await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor()
    const wide = await tooWide(page)
    if (wide > 1) faults.push(`${path} is ${wide} px too wide`)
  }
  assert.deepEqual(faults, [])
  await walk('/tables/orders')
  await typeInto(page, page.locator('[role=gridcell][data-column=note]').first(), 'zoomed')
  await page.getByText('1 change', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Discard' }).click()
})

test('no page, row of a list or dialog has a fault of accessibility, to the last one, light and dark; dialogs fit at 200 %', {
  skip,
}, async () => {
  const dashboard = await openDashboard(api)
  const { page, go, walk } = dashboard
  const faults: string[] = []
  await go('/')
  for (const [path, title] of PAGES) {
    await walk(path)
    await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor()
    await page.locator('.loading').first().waitFor({ state: 'detached' })
    for (const fault of await violations(page, { whole: true, dark: true })) faults.push(`${path}: ${fault}`)
  }
  await eachDialog(dashboard, async (what, isDialog) => {
    for (const fault of await violations(page, { dark: true })) faults.push(`${what}: ${fault}`)
    if (!isDialog) return
    // 1440 × 900 at 200 %: half of both, twice the pixels of each.
    await page.setViewportSize({ width: 720, height: 450 })
    const wide = await tooWide(page, 'dialog[open]')
    if (wide > 1) faults.push(`${what} is ${wide} px too wide`)
    await page.setViewportSize({ width: 1440, height: 900 })
  })
  assert.deepEqual(faults, [])
})
