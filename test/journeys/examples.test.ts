import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { build } from 'esbuild'
import type { Browser, Page } from 'playwright-core'
import { exampleBuild } from '../../scripts/example.ts'
import { atEnd } from '../kit/at-end.ts'
import { skip, startBrowser } from '../kit/browser.ts'
import { type InProcessServer, startServer } from '../kit/kit.ts'

let api: InProcessServer
let browser: Browser
before(async () => {
  if (skip) return
  api = await startServer()
  const query = readFileSync('examples/schema.sql', 'utf8')
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query } })
  browser = await startBrowser()
})

/** The address of an example, on an origin of its own. */
async function serve(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-example-'))
  await build({ ...exampleBuild(name, folder), minify: true })
  const server = createServer((request, response) => {
    const isScript = request.url === '/main.js'
    response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html; charset=utf-8' })
    response.end(readFileSync(isScript ? join(folder, 'main.js') : `examples/${name}/index.html`))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(async () => {
    server.closeAllConnections()
    server.close()
    await rm(folder, { recursive: true, force: true })
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/?server=${encodeURIComponent(api.url)}`
}

async function signUp(address: string, email: string): Promise<Page> {
  const page = await (await browser.newContext()).newPage()
  await page.goto(address)
  await page.getByPlaceholder('Email').fill(email)
  await page.getByPlaceholder('Password').fill('long enough password')
  await page.getByRole('button', { name: 'Sign up' }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  return page
}

for (const name of ['todo', 'todo-react']) {
  test(`examples/${name}: what one person does, the other sees`, { skip }, async () => {
    const address = await serve(name)
    const ana = await signUp(address, `ana-${name}@x.test`)
    const ben = await signUp(address, `ben-${name}@x.test`)
    const itemOf = (page: Page, title: string) => page.getByRole('listitem').filter({ hasText: title })

    await ana.getByPlaceholder('What is to be done?').fill(`feed the lions of ${name}`)
    await ana.getByRole('button', { name: 'Add' }).click()
    await itemOf(ben, `lions of ${name}`).waitFor()
    await itemOf(ben, `lions of ${name}`).getByTitle('Done').click()
    await ana.locator('li.done', { hasText: `lions of ${name}` }).waitFor()
    // Only who made it deletes it.
    assert.equal(await itemOf(ben, `lions of ${name}`).getByTitle('Delete').count(), 0)

    const photo = join(tmpdir(), `lion-${name}.txt`)
    writeFileSync(photo, 'roar')
    await itemOf(ben, `lions of ${name}`).locator('input[type=file]').setInputFiles(photo)
    await itemOf(ana, `lions of ${name}`).getByText(`lion-${name}.txt`).waitFor()
    const [opened] = await Promise.all([
      ana.waitForEvent('popup'),
      itemOf(ana, `lions of ${name}`).getByText(`lion-${name}.txt`).click(),
    ])
    await opened.getByText('roar').waitFor()
    await rm(photo)

    await ana.getByPlaceholder('What is to be done?').fill('x'.repeat(201))
    await ana.getByRole('button', { name: 'Add' }).click()
    await ana.getByText('A task has 1 to 200 letters.').waitFor()

    await itemOf(ana, `lions of ${name}`).getByTitle('Delete').click()
    await itemOf(ben, `lions of ${name}`).waitFor({ state: 'detached' })
    // It is still signed in when it is loaded again, and signed out when asked to.
    await ben.reload()
    await ben.getByRole('button', { name: 'Sign out' }).click()
    await ben.getByRole('button', { name: 'Sign in' }).waitFor()
  })

  test(`examples/${name} has at most 200 lines`, () => {
    const file = name === 'todo' ? 'main.ts' : 'main.tsx'
    assert.ok(readFileSync(`examples/${name}/${file}`, 'utf8').split('\n').length <= 200)
  })
}
