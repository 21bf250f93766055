import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { skip, startBrowser } from '../../../test/kit/browser.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { cases } from '../cases/all.ts'
import { SCHEMA } from '../schema.ts'
import { scriptOf, startPage } from './page.ts'

/** React mounts each component twice there, and runs each effect, its end, and the effect again. */
const SCRIPT = `
  import { StrictMode, Suspense, useEffect, useState } from 'react'
  import { createRoot } from 'react-dom/client'
  import { createClient } from '../../src/main.ts'
  import { SvcProvider, useList, useRow, useUser } from '../../src/react.ts'
  import { cases } from '../cases/all.ts'
  import { runCase } from '../cases/kit.ts'

  const requests = [], sockets = []
  const Socket = globalThis.WebSocket
  globalThis.WebSocket = class extends Socket { constructor(...given) { super(...given); sockets.push(this) } }
  const counting = (url, init) => { requests.push((init?.method ?? 'GET') + ' ' + new URL(url).pathname); return fetch(url, init) }
  globalThis.requestsOf = (start) => requests.filter((line) => line.startsWith(start)).length
  globalThis.openSockets = () => sockets.filter(({ readyState }) => readyState <= Socket.OPEN).length
  const strict = (inside) => {
    const root = createRoot(document.getElementById('app'))
    root.render(<StrictMode>{inside}</StrictMode>)
    return root
  }

  globalThis.runStrict = (name, url) => new Promise((resolve, reject) => {
    let runs = 0, before = Promise.resolve()
    const Case = () => {
      const [place] = useState(() => ({ url }))
      useEffect(() => {
        before = before.then(() => runCase(cases[name], place))
        if (++runs === 2) before.then(resolve, reject).finally(() => root.unmount())
      }, [place])
      return null
    }
    const root = strict(<Case />)
  })

  const Notes = ({ of }) => {
    const { data, error } = useList('notes', { filter: { slug: of }, sort: ['title'] }, { live: true })
    return <ul data-error={error?.message}>{data?.items.map(({ id, title }) => <li key={id}>{title}</li>)}</ul>
  }
  const Mine = () => {
    const { data } = useList('mine', {}, { live: true, suspense: true })
    return <ol>{data.items.map(({ id, text }) => <li key={id}>{text}</li>)}</ol>
  }
  const One = ({ id }) => <b>{useRow('notes', id, { fields: ['title'] }, { suspense: true }).data?.title ?? 'none'}</b>
  const Who = () => <i>{useUser()?.email ?? 'a visitor'}</i>
  globalThis.show = (url, what) => {
    globalThis.svc ??= createClient(url, { fetch: counting })
    const inside = {
      twice: <><Notes of={{ like: 'strict-%' }} /><Notes of={{ like: 'strict-%' }} /></>,
      row: <Suspense fallback="reading"><One id={900} /></Suspense>,
      person: <><Who /><Suspense fallback="reading"><Mine /></Suspense></>,
    }[what]
    globalThis.root = strict(<SvcProvider client={svc}>{inside}</SvcProvider>)
  }`

let api: InProcessServer
let browser: Browser
let address: string
before(async () => {
  if (skip) return
  api = await startServer()
  await api.call('POST /api/admin/sql', { as: 'admin', json: { query: SCHEMA } })
  address = await startPage(await scriptOf(SCRIPT))
  browser = await startBrowser()
})

const open = async (): Promise<Page> => {
  const page = await (await browser.newContext()).newPage()
  await page.goto(address)
  return page
}
const shown = (page: Page, selector: string): Promise<string[]> => page.locator(selector).allTextContents()
const show = (page: Page, what: string) => page.evaluate(`show(${JSON.stringify(api.url)}, '${what}')`)

for (const name of Object.keys(cases)) {
  test(`twice, by an effect: ${name}`, { skip, timeout: 60_000 }, async () => {
    const page = await open()
    await page.evaluate(`runStrict(${JSON.stringify(name)}, ${JSON.stringify(api.url)})`)
    await page.close()
  })
}

test('two components share one read and one subscription, and both stay true', { skip, timeout: 60_000 }, async () => {
  await api.sql(
    `select svc.watch('notes'); insert into notes (slug, title) values ('strict-1', 'one'), ('strict-2', 'two')`,
  )
  const page = await open()
  await show(page, 'twice')
  await page.evaluate(`svc.auth.register({ email: 'twice@strict.test', password: 'long enough password' })`)
  await eventually(async () => assert.deepEqual(await shown(page, 'li'), ['one', 'two', 'one', 'two']))
  const made = await api.call('POST /api/collections/notes', {
    as: 'admin',
    json: { slug: 'strict-3', title: 'three' },
  })
  assert.equal(made.status, 201)
  await eventually(async () => assert.deepEqual(await shown(page, 'ul:last-child li'), ['one', 'three', 'two']))
  assert.deepEqual(await shown(page, 'ul:first-child li'), ['one', 'three', 'two'])
  // One of the visitor, and one of the person.
  assert.equal(await page.evaluate(`requestsOf('GET /api/collections/notes')`), 2)
  assert.equal(await page.evaluate(`openSockets()`), 1)
  await page.evaluate(`root.unmount()`)
  await eventually(async () => assert.equal(await page.evaluate(`openSockets()`), 0), { seconds: 20 })
  await page.close()
})

test('a row that is suspended on is read once', { skip, timeout: 60_000 }, async () => {
  await api.sql(`insert into notes (id, title) values (900, 'nine hundred')`)
  const page = await open()
  await show(page, 'row')
  await eventually(async () => assert.deepEqual(await shown(page, 'b'), ['nine hundred']))
  assert.equal(await page.evaluate(`requestsOf('GET /api/collections/notes/900')`), 1)
  await page.close()
})

test('what one person has read is not shown to the next', { skip, timeout: 60_000 }, async () => {
  const page = await open()
  await show(page, 'person')
  await eventually(async () => assert.deepEqual(await shown(page, 'i'), ['a visitor']))
  for (const name of ['ana', 'bo']) {
    const account = JSON.stringify({ email: `${name}@strict.test`, password: 'long enough password' })
    await page.evaluate(`svc.auth.register(${account})`)
    await eventually(async () => assert.deepEqual(await shown(page, 'i'), [`${name}@strict.test`]))
    await page.evaluate(`svc.from('mine').create({ text: 'of ${name}' })`)
    await eventually(async () => assert.deepEqual(await shown(page, 'ol li'), [`of ${name}`]))
    await page.evaluate(`svc.auth.logout()`)
    await eventually(async () => assert.deepEqual(await shown(page, 'ol li'), []))
  }
  await page.close()
})
