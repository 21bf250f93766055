import type { Page } from 'playwright-core'
import { type Dashboard, startDashboard } from './dashboard.ts'
import { SHOP } from './seed.ts'

/** Every page with its heading. */
export const PAGES = [
  ['/', 'Overview'],
  ['/tables', 'Tables'],
  ['/tables/orders', 'orders'],
  ['/tables/orders?tab=structure', 'orders'],
  ['/tables/notes?tab=policies', 'notes'],
  ['/tables/orders?tab=history', 'orders'],
  ['/tables/orders?tab=api', 'orders'],
  ['/sql', 'SQL'],
  ['/schema', 'Schema'],
  ['/policies', 'Policies'],
  ['/users', 'Users'],
  ['/storage', 'Storage'],
  ['/storage/photos', 'photos'],
  ['/realtime', 'Realtime'],
  ['/webhooks', 'Webhooks'],
  ['/jobs', 'Jobs'],
  ['/push', 'Push'],
  ['/sites', 'Sites'],
  ['/email', 'Email'],
  ['/keys', 'Keys and apps'],
  ['/logs', 'Logs'],
  ['/audit', 'Audit'],
  ['/usage', 'Usage'],
  ['/api', 'API'],
  ['/settings', 'Settings'],
] as const

const DIALOGS: readonly [path: string, button: string][] = [
  ['/tables', 'New table'],
  ['/tables/orders', 'View as'],
  ['/tables/orders', 'Build'],
  ['/tables/notes?tab=policies', 'New policy'],
  ['/users', 'Invite'],
  ['/webhooks', 'New webhook'],
  ['/keys', 'New key'],
  ['/jobs', 'New schedule'],
]

/** Each dialog, the row beside the grid and the palette, open before `look`. */
export async function eachDialog(
  { page, walk }: Pick<Dashboard, 'page' | 'walk'>,
  look: (what: string, isDialog: boolean) => Promise<void>,
): Promise<void> {
  for (const [path, name] of DIALOGS) {
    await walk(path)
    await page.getByRole('button', { name, exact: true }).first().click()
    await page.locator('dialog[open]').waitFor()
    await look(`${path} ${name}`, true)
    await page.keyboard.press('Escape')
    await page.locator('dialog[open]').waitFor({ state: 'detached' })
  }
  await walk('/tables/orders?row=7')
  await page.getByRole('complementary', { name: 'Row 7' }).getByText('placed_at').first().waitFor()
  await look('row panel', false)
  await page.keyboard.press('Control+K')
  await page.getByRole('combobox', { name: /Find a page/ }).fill('ord')
  await page
    .getByRole('option', { name: /orders/ })
    .first()
    .waitFor()
  await look('palette', false)
}

/** A server with the tables of a shop, and a user with a note. */
export async function startShop() {
  const api = await startDashboard({ config: { 'push.enabled': true, 'auth.oauth_provider.enabled': true } })
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: SHOP } })
  const ana = await api.signUp('ana@example.com')
  await api.call('POST /api/collections/notes', { as: ana.token, json: { title: 'Feed the lions' } })
  return { api, ana }
}

/** How much has to be scrolled sideways to read it, once everything has taken the size of the window. */
export async function tooWide(page: Page, what = 'main'): Promise<number> {
  const measure = () =>
    page.evaluate((selector) => {
      const box = document.querySelector(selector)
      return Math.max(
        document.documentElement.scrollWidth - innerWidth,
        (box?.scrollWidth ?? 0) - (box?.clientWidth ?? 0),
      )
    }, what)
  let wide = await measure()
  for (const end = Date.now() + 5_000; wide > 1 && Date.now() < end; wide = await measure())
    await page.waitForTimeout(100)
  return wide
}
