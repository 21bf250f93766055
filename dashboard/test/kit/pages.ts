import type { Page } from 'playwright-core'
import { startDashboard } from './dashboard.ts'
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
