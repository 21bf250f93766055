import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { skip, startBrowser } from '../../../test/kit/browser.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { SCHEMA } from '../schema.ts'
import { scriptOf, startPage } from './page.ts'

const LIFE_S = 5
/** A token is renewed a fifth of its life before its end. */
const RENEWED_EVERY_S = LIFE_S * 0.8

const SCRIPT = `
  import { createClient } from '../../src/main.ts'
  const counts = { read: 0, failed: [], refreshed: 0, replayed: 0, refused: 0, heard: 0, changes: [] }
  const counting = async (url, init) => {
    const response = await fetch(url, init)
    if (!url.endsWith('/refresh')) return response
    if (response.headers.has('idempotency-replayed')) counts.replayed++
    else response.ok ? counts.refreshed++ : counts.refused++
    return response
  }
  globalThis.counts = counts
  globalThis.connect = (url) => {
    globalThis.svc = createClient(url, { fetch: counting })
    svc.auth.onChange((session) => counts.changes.push(session?.user.email ?? null))
  }
  globalThis.begin = (seconds) => {
    svc.from('mine').watch({ onChange: () => counts.heard++ })
    const end = performance.now() + seconds * 1000
    globalThis.done = (async () => {
      while (performance.now() < end) {
        await svc.from('mine').list().then(
          ({ items }) => (items.length > 0 ? counts.read++ : counts.failed.push('signed out')),
          (error) => counts.failed.push(String(error)))
        await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 300))
      }
    })()
  }`

type Counts = {
  read: number
  failed: string[]
  refreshed: number
  replayed: number
  refused: number
  heard: number
  changes: (string | null)[]
}

let api: InProcessServer
let browser: Browser
let address: string
before(async () => {
  if (skip) return
  api = await startServer({ config: { 'auth.token_duration': LIFE_S } })
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: SCHEMA } })
  address = await startPage(await scriptOf(SCRIPT))
  browser = await startBrowser()
})

async function openTabs(context: BrowserContext, count: number): Promise<Page[]> {
  const pages = await Promise.all(Array.from({ length: count }, () => context.newPage()))
  await Promise.all(pages.map((page) => page.goto(address)))
  for (const page of pages) await page.evaluate(`connect(${JSON.stringify(api.url)})`)
  return pages
}
const countsOf = (page: Page) => page.evaluate('counts') as Promise<Counts>
const account = (email: string) => JSON.stringify({ email, password: 'long enough password' })

async function useFor(seconds: number, pages: readonly Page[]): Promise<Counts[]> {
  await Promise.all(pages.map((page) => page.evaluate(`begin(${seconds})`)))
  // A write every now and then, which all tabs hear.
  const [first] = pages
  let written = 0
  const end = Date.now() + (seconds - 8) * 1000
  while (Date.now() < end) {
    await first?.evaluate(`svc.from('mine').create({ text: 't' })`)
    written++
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
  await Promise.all(pages.map((page) => page.evaluate('done')))
  const all = await Promise.all(pages.map(countsOf))
  for (const { failed, read, heard } of all) {
    assert.deepEqual(failed, [])
    assert.ok(read > 0)
    assert.ok(heard >= written - 1, `${heard} of ${written}`)
  }
  return all
}
const sum = (all: readonly number[]): number => all.reduce((a, b) => a + b, 0)

test('signing in and out reaches the other tab', { skip, timeout: 60_000 }, async () => {
  const [one, two] = await openTabs(await browser.newContext(), 2)
  assert.ok(one && two)
  await one.evaluate(`svc.auth.register(${account('ana@x.test')})`)
  await eventually(async () => assert.deepEqual((await countsOf(two)).changes, ['ana@x.test']))
  await two.evaluate(`svc.from('mine').create({ text: 'from the other tab' })`)
  await two.evaluate('svc.auth.logout()')
  await eventually(async () => assert.equal((await countsOf(one)).changes.at(-1), null))
  assert.equal(await one.evaluate('svc.auth.session'), null)
})

test('a page that is loaded again is still signed in', { skip, timeout: 60_000 }, async () => {
  const [page] = await openTabs(await browser.newContext(), 1)
  await page?.evaluate(`svc.auth.register(${account('again@x.test')})`)
  await page?.reload()
  await page?.evaluate(`connect(${JSON.stringify(api.url)})`)
  assert.equal(await page?.evaluate('svc.auth.me().then((user) => user.email)'), 'again@x.test')
})

test('ten tabs for a minute, tokens of five seconds: nobody is signed out, one refresh per expiry', {
  skip,
  timeout: 180_000,
}, async () => {
  const pages = await openTabs(await browser.newContext(), 10)
  await pages[0]?.evaluate(`svc.auth.register(${account('ten@x.test')})`)
  await pages[0]?.evaluate(`svc.from('mine').create({ text: 'first' })`)
  const all = await useFor(60, pages)
  const refreshed = sum(all.map((counts) => counts.refreshed))
  assert.deepEqual(
    [sum(all.map(({ refused }) => refused)), refreshed <= 60 / RENEWED_EVERY_S + 1],
    [0, true],
    JSON.stringify(all),
  )
  assert.ok(refreshed > 1)
})

test('where there are no locks, nobody is signed out either', { skip, timeout: 120_000 }, async () => {
  const context = await browser.newContext()
  await context.addInitScript(`Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })`)
  const pages = await openTabs(context, 4)
  await pages[0]?.evaluate(`svc.auth.register(${account('four@x.test')})`)
  await pages[0]?.evaluate(`svc.from('mine').create({ text: 'first' })`)
  await useFor(20, pages)
})
