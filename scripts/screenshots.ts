// `npm run screenshots`: the pictures of docs/dashboard.md, from a seeded database of its own, light and dark.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium, type Page } from 'playwright-core'
import { SHOP } from '../dashboard/test/kit/seed.ts'
import { startApp } from '../src/app.ts'
import { loadConfig } from '../src/config/config.ts'
import { startEmbedded } from '../src/db/setup/embedded/embedded.ts'
import { bundleDashboard } from './dashboard.js'
import { log, root } from './install.js'

const PASSWORD = 'correct horse battery staple'
const out = join(root, 'docs/pictures')

type Shot = { name: string; path: string; act?: (page: Page) => Promise<void>; width?: number }

const SHOTS: readonly Shot[] = [
  { name: 'overview', path: '/', act: (page) => page.waitForTimeout(9_000) },
  { name: 'tables', path: '/tables' },
  { name: 'rows', path: '/tables/customers?row=3' },
  {
    name: 'sql',
    path: '/sql',
    async act(page) {
      await page.locator('.cm-content').click()
      await page.keyboard.press('Control+A')
      await page.keyboard.type('select country, count(*) as customers from customers group by 1 order by 2 desc')
      await page.keyboard.press('Control+Enter')
      await page.getByRole('button', { name: 'Chart' }).click()
      await page.locator('canvas').waitFor()
    },
  },
  { name: 'schema', path: '/schema' },
  { name: 'policies', path: '/policies' },
  { name: 'new-table', path: '/tables?new=1' },
  { name: 'phone', path: '/tables/orders', width: 390 },
]

const dataDir = mkdtempSync(join(tmpdir(), 'svc-screenshots-'))
const folder = join(dataDir, 'dashboard')
const cluster = await startEmbedded({ dataDir: join(dataDir, 'pg'), log })
const overrides = {
  'database.url': cluster.url,
  'server.port': 0,
  'admin.password': PASSWORD,
  'admin.environment': 'staging',
  'log.level': 'error',
  'storage.local_path': join(dataDir, 'files'),
}
const app = await startApp(loadConfig({ overrides }).config, { observe: () => {}, dashboardFolder: folder })
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] })

async function post(path: string, body: unknown, token = ''): Promise<{ token: string }> {
  const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) }
  const response = await fetch(`${app.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`)
  return (await response.json()) as { token: string }
}

try {
  await bundleDashboard(folder)
  mkdirSync(out, { recursive: true })
  const { token } = await post('/api/admin/auth', { password: PASSWORD, client: 'dashboard' })
  await post('/api/admin/sql', { query: SHOP }, token)
  await post('/api/auth/register', { email: 'ana@example.com', password: 'correct horse' })
  const traffic = setInterval(() => void fetch(`${app.url}/api/collections/products?perPage=5`).catch(() => {}), 40)
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const { name, path, act, width = 1280 } of SHOTS) {
      const viewport = { width, height: width > 600 ? 800 : 780 }
      const context = await browser.newContext({ viewport, colorScheme, reducedMotion: 'reduce' })
      const page = await context.newPage()
      await page.addInitScript(`sessionStorage.setItem('savanna:token', ${JSON.stringify(token)})`)
      await page.goto(`${app.url}/admin${path}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await page.locator('.loading').first().waitFor({ state: 'detached' })
      await page.waitForTimeout(1_500)
      await act?.(page)
      await page.screenshot({ path: join(out, `${name}-${colorScheme}.png`), animations: 'disabled' })
      await context.close()
      log(`${name}, ${colorScheme}`)
    }
  }
  clearInterval(traffic)
} finally {
  await browser.close()
  await app.close()
  await cluster.stop()
  rmSync(dataDir, { recursive: true, force: true })
}
