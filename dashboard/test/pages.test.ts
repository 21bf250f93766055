import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Locator } from 'playwright-core'
import { skip } from '../../test/kit/browser.ts'
import { eventually } from '../../test/kit/eventually.ts'
import { nextTimes } from '../src/pages/jobs/cron.ts'
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

test('the next times of a schedule are those at which the server runs it, and cost little to find however rare they are', () => {
  const { formatToParts } = Intl.DateTimeFormat.prototype
  let looked = 0
  Intl.DateTimeFormat.prototype.formatToParts = function (...given) {
    if (++looked > 2_000) throw new Error('looked at the clock too often')
    return formatToParts.apply(this, given)
  }
  const shown = (expression: string, zone: string, from: string): string[] => {
    looked = 0
    return nextTimes(expression, zone, 5, new Date(from)).map((time) => time.toISOString().slice(0, 16))
  }
  try {
    for (const expression of ['60 * * * *', '@', '', '*/0 * * * *', '5-1 * * * *', '* * 31 feb *', '0 0 0 1 1 *'])
      assert.throws(() => shown(expression, 'Europe/Berlin', '2026-01-01'), { message: 'invalid cron expression' })
    assert.throws(() => shown('* * * * *', 'Europe/Nowhere', '2026-01-01'), { message: 'invalid timezone' })
    assert.deepEqual(shown('0 0 29 2 *', 'Africa/Nairobi', '2026-01-01'), [
      '2028-02-28T21:00',
      '2032-02-28T21:00',
      '2036-02-28T21:00',
      '2040-02-28T21:00',
      '2044-02-28T21:00',
    ])
    // The 1st or a Monday, in January.
    assert.deepEqual(shown('0 0 1 jan mon', 'UTC', '2026-01-13'), [
      '2026-01-19T00:00',
      '2026-01-26T00:00',
      '2027-01-01T00:00',
      '2027-01-04T00:00',
      '2027-01-11T00:00',
    ])
    // 02:30 is skipped on the 29th of March 2026, and shown twice on the 25th of October.
    assert.deepEqual(shown('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z').slice(0, 2), [
      '2026-03-29T01:00',
      '2026-03-30T00:30',
    ])
    assert.deepEqual(shown('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z').slice(0, 2), [
      '2026-10-25T00:30',
      '2026-10-26T01:30',
    ])
  } finally {
    Intl.DateTimeFormat.prototype.formatToParts = formatToParts
  }
})

test('what is no cron expression is refused while it is typed, and a rare schedule shows its next five', {
  skip,
}, async () => {
  const { page, go, troubles } = await openDashboard(api)
  const json = { name: 'leap', jobType: 'stale_session_cleanup', cronExpr: '0 0 29 2 *', timezone: 'Europe/Berlin' }
  await api.call('POST /api/admin/schedules', { as: 'admin', json })
  await go('/jobs?tab=schedules')
  const row = page.getByRole('row', { name: /leap/ })
  assert.equal(await row.getByRole('listitem').count(), 0)
  await row.locator('summary').click()
  await row.getByRole('listitem').nth(4).waitFor()
  await page.getByRole('button', { name: 'New schedule' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText(/^Next: .+ · /).waitFor()
  for (const typed of ['60 * * * *', '@', '0 0 30 feb *']) {
    await dialog.getByLabel('When').fill(typed)
    await dialog.getByText('invalid cron expression').waitFor()
    await dialog.getByLabel('When').fill('0 0 29 2 *')
    await dialog.getByText(/^Next: .+ · /).waitFor()
  }
  await dialog.getByLabel('Time zone').fill('Europe/Ber')
  await dialog.getByText('invalid timezone').waitFor()
  assert.deepEqual(troubles, [])
})

test('the chart of the first figures has an axis of seconds', { skip }, async () => {
  const { page, go } = await openDashboard(api)
  await page.addInitScript(() => {
    const drawn: string[] = []
    const { fillText } = CanvasRenderingContext2D.prototype
    CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
      drawn.push(text)
      fillText.call(this, text, ...at)
    }
    Object.assign(globalThis, { drawn })
  })
  // Two readings make one point.
  let readings = 0
  await page.route('**/api/admin/figures', (route) => (++readings > 2 ? route.abort() : route.continue()))
  await go('/')
  await page.locator('.chart canvas').nth(1).waitFor()
  const drawn = () => page.evaluate(() => (globalThis as unknown as { drawn: string[] }).drawn)
  await eventually(async () => assert.ok((await drawn()).some((text) => text.startsWith(':'))))
  const years = (await drawn()).filter((text) => /^(19|20)\d\d$/.test(text))
  assert.deepEqual(years, [])
})

test('at 390 px the columns of an import are chosen without scrolling, and the details of an audit entry are in view', {
  skip,
}, async () => {
  const { page, go, walk, troubles } = await openDashboard(api, { viewport: { width: 390, height: 844 } })
  const inView = (one: Locator): Promise<boolean> =>
    one.evaluate((element) => {
      const { left, right, width } = element.getBoundingClientRect()
      const wrap = element.closest('.table-wrap')?.getBoundingClientRect()
      return width > 100 && left >= (wrap?.left ?? 0) && right <= (wrap?.right ?? 0) && right <= innerWidth
    })
  await go('/tables/customers')
  const chooser = page.waitForEvent('filechooser')
  await page.getByRole('button', { name: 'Import' }).click()
  const csv = `name,email,${'long'.repeat(20)}\n"A name with several words",${'x'.repeat(60)}@example.com,1\n`
  await (await chooser).setFiles({ name: 'people.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) })
  const dialog = page.getByRole('dialog', { name: 'Import people.csv' })
  const selects = dialog.getByRole('combobox', { name: /Column for/ })
  await selects.nth(2).waitFor()
  assert.deepEqual(await Promise.all((await selects.all()).map(inView)), [true, true, true])
  assert.deepEqual(await violations(page), [])
  await page.keyboard.press('Escape')

  await walk('/audit')
  await page.getByRole('button', { name: 'Details' }).first().click()
  const after = page.getByRole('region', { name: 'After' })
  await after.waitFor()
  assert.ok(await inView(after))
  assert.deepEqual(await violations(page), [])
  assert.deepEqual(troubles, [])
})
