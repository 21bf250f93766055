import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { atEnd } from '../../../test/kit/at-end.ts'
import { startBrowser } from '../../../test/kit/browser.ts'
import { type InProcessServer, type ServerOptions, startServer } from '../../../test/kit/kit.ts'

const ADMIN_PASSWORD = 'correct horse battery staple'

/** The folder of the built dashboard, made once for a whole run. */
const folder = process.env['SVC_TEST_DASHBOARD'] ?? ''

export type Dashboard = {
  page: Page
  /** What the browser refused by the page's policy, and errors of scripts. Must stay empty. */
  troubles: string[]
  /** To a path under /admin, through the address. */
  go(path: string): Promise<void>
  /** The same in the page as it is, as going back does: nothing is loaded anew. */
  walk(path: string): Promise<void>
  signIn(): Promise<void>
}

export const startDashboard = (options: ServerOptions = {}): Promise<InProcessServer> =>
  startServer({ ...options, dashboardFolder: folder })

/** Types into a cell that takes text. */
export async function typeInto(page: Page, cell: Locator, text: string): Promise<void> {
  await cell.dblclick()
  await page.getByLabel(`Edit ${await cell.getAttribute('data-column')}`).fill(text)
  await page.keyboard.press('Enter')
}

/** A page of a context of its own, on the built files as the server sends them. */
export async function openDashboard(
  api: { url: string; adminToken(): Promise<string> },
  options: BrowserContextOptions & { signedIn?: boolean } = {},
): Promise<Dashboard> {
  const { signedIn = true, ...rest } = options
  const context = await (await startBrowser()).newContext({
    viewport: { width: 1440, height: 900 },
    reducedMotion: 'reduce',
    ...rest,
  })
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  atEnd(() => context.close())
  const page = await context.newPage()
  // A busy machine takes long for a page.
  page.setDefaultTimeout(60_000)
  const troubles: string[] = []
  page.on('pageerror', (error) => troubles.push(error.message))
  page.on('console', (message) => {
    const text = message.text()
    if (message.type() === 'error' && !/Failed to load resource|WebSocket/.test(text)) troubles.push(text)
  })
  page.on('request', (request) => {
    const url = request.url()
    if (!url.startsWith(api.url) && !/^(blob|data):/.test(url)) troubles.push(`request to ${url}`)
  })
  if (signedIn) {
    const token = await api.adminToken()
    await page.addInitScript((value) => {
      if (!sessionStorage.getItem('test')) sessionStorage.setItem('savanna:token', value)
      sessionStorage.setItem('test', 'signed in once')
    }, token)
  }
  return {
    page,
    troubles,
    go: async (path) => void (await page.goto(`${api.url}/admin${path}`)),
    walk: (path) =>
      page.evaluate((to) => {
        history.pushState(null, '', to)
        dispatchEvent(new PopStateEvent('popstate'))
      }, `/admin${path}`),
    async signIn() {
      await page.getByLabel('Password').fill(ADMIN_PASSWORD)
      await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    },
  }
}

const require = createRequire(join(process.cwd(), 'package.json'))
let axe: string | undefined

type Violation = { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }

/** Further ones of what the first few of a list are already: most of axe's time would go to them. */
const REPEATED = [
  '.grid-row:nth-child(n+5)',
  '.table tbody tr:nth-child(n+5)',
  'nav[aria-label=Calls] details:nth-of-type(n+5)',
]

/** The frame around every page. */
const FRAME = ['.side', '.top']

type Looked = {
  /** Also in every further row of a list, and in the frame that is the same around every page. */
  whole?: boolean
  dark?: boolean
}

/** What axe-core finds wrong with the page as it is now. */
export async function violations(page: Page, { whole = false, dark = false }: Looked = {}): Promise<string[]> {
  axe ??= readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')
  // By the debugger, because the page's policy allows no script but its own.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(`${axe}; void 0`)
  const exclude = whole ? [] : [...REPEATED, ...FRAME].map((one) => [one])
  const run = (options: object) =>
    page.evaluate(
      async ([where, given]) => {
        type Axe = { run(context: object, options: object): Promise<{ violations: Violation[] }> }
        const { axe: runner } = globalThis as unknown as { axe: Axe }
        return (await runner.run(where, given)).violations
      },
      [{ include: [['html']], exclude }, options] as const,
    )
  const found = await run({ resultTypes: ['violations'] })
  if (dark) {
    await page.emulateMedia({ colorScheme: 'dark' })
    // Everything else is the same in the dark.
    found.push(...(await run({ resultTypes: ['violations'], runOnly: ['color-contrast'] })))
    await page.emulateMedia({ colorScheme: 'light' })
  }
  return found.flatMap(({ id, nodes }) =>
    nodes
      .slice(0, 3)
      .map(
        ({ html, failureSummary }) =>
          `${id}: ${html.slice(0, 200)} ${failureSummary.replace(/\s+/g, ' ').slice(0, 240)}`,
      ),
  )
}

/** As a spreadsheet does. */
export async function paste(page: Page, text: string): Promise<void> {
  await page.evaluate((value) => navigator.clipboard.writeText(value), text)
  await page.keyboard.press('Control+V')
}
