import { before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { skip, startBrowser } from '../../../test/kit/browser.ts'
import { type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { cases } from '../cases/all.ts'
import { SCHEMA } from '../schema.ts'
import { scriptOf, startPage } from './page.ts'

let api: InProcessServer
let browser: Browser
let address: string
before(async () => {
  if (skip) return
  api = await startServer()
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: SCHEMA } })
  address = await startPage(
    await scriptOf(`
      import { cases } from '../cases/all.ts'
      import { runCase } from '../cases/kit.ts'
      globalThis.runNamed = (name, url) => runCase(cases[name], { url })`),
  )
  browser = await startBrowser()
})

const open = async (init?: string): Promise<Page> => {
  const page = await (await browser.newContext()).newPage()
  if (init) await page.addInitScript(init)
  await page.goto(address)
  return page
}
const run = (page: Page, name: string) => page.evaluate(`runNamed(${JSON.stringify(name)}, ${JSON.stringify(api.url)})`)

for (const name of Object.keys(cases)) {
  test(name, { skip, timeout: 60_000 }, async () => {
    const page = await open()
    await run(page, name)
    await page.close()
  })
}

for (const hours of [-1, 1]) {
  test(`on a machine whose clock is wrong by ${hours} hours`, { skip, timeout: 60_000 }, async () => {
    const page = await open(`
      const now = Date.now; Date.now = () => now() + ${hours} * 3600_000`)
    for (const name of Object.keys(cases).filter((name) => /token|accounts/.test(name))) await run(page, name)
    await page.close()
  })
}
