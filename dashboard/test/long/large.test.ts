import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { skip } from '../../../test/kit/browser.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { openDashboard, startDashboard } from '../kit/dashboard.ts'

const api = await startDashboard()
await api.sql(`create table big (id bigint primary key, word text, number int, made timestamptz default now())`)
await api.sql(`insert into big select i, 'word ' || i, i % 1000 from generate_series(1, 5000000) i`)
await api.sql('analyze big')
await api.sql('create table busy (id int primary key, counter int)')
await api.sql('insert into busy select i, 0 from generate_series(1, 100) i')

const PAGE = 'GET /api/collections/big?cursor=&perPage=200&total=estimate&cut=500'

test('with five million rows the first ones are there within 1.5 times the API’s own answer', { skip }, async () => {
  const { page, go } = await openDashboard(api)
  await go('/tables')
  await page.getByRole('link', { name: 'busy' }).waitFor()
  await page.getByRole('link', { name: 'busy' }).click()
  await page.getByRole('gridcell', { name: '1', exact: true }).first().waitFor()
  // The code of the page is there; what is measured is the way of the rows.
  const asked: number[] = []
  page.on('requestfinished', (request) => {
    if (request.url().includes('/api/collections/big?')) asked.push(request.timing().responseEnd)
  })
  await page.keyboard.press('Control+K')
  await page.getByRole('combobox', { name: /Find a page/ }).fill('big')
  await page.getByRole('option', { name: /big/ }).first().waitFor()
  const took = await page.evaluate(async () => {
    const began = performance.now()
    document.querySelector<HTMLElement>('[role=option]')?.click()
    await new Promise<void>((resolve) => {
      const look = () =>
        [...document.querySelectorAll('[data-column=word]')].some((cell) => cell.textContent === 'word 1')
          ? resolve()
          : requestAnimationFrame(look)
      look()
    })
    return performance.now() - began
  })
  const before = performance.now()
  await api.call(PAGE, { as: 'admin' })
  const own = performance.now() - before
  // A frame or two of drawing on top, for answers that take a few milliseconds.
  assert.ok(took <= Math.max(own, asked[0] ?? 0) * 1.5 + 150, `${took} ms, the API ${own} ms`)
  console.log(`five million rows: first rows after ${Math.round(took)} ms, the API ${Math.round(own)} ms`)
})

test('scrolling through 100,000 rows has no task over 100 ms, and what is kept is bounded', { skip }, async () => {
  const { page, go } = await openDashboard(api)
  await go('/tables/big')
  await page.getByRole('gridcell', { name: 'word 1', exact: true }).waitFor()
  const heap = await heapOf(page)
  const { longest, rows, nodes } = await page.evaluate(async () => {
    let slowest = 0
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) slowest = Math.max(slowest, duration)
    }).observe({ type: 'longtask' })
    const grid = document.querySelector('[role=grid]') as HTMLElement
    const deadline = performance.now() + 300_000
    while (grid.scrollTop < 100_000 * 33 && performance.now() < deadline) {
      grid.scrollTop += 3_000
      await new Promise((resolve) => requestAnimationFrame(resolve))
    }
    return {
      longest: slowest,
      rows: Math.round(grid.scrollTop / 33),
      nodes: document.querySelectorAll('[role=row]').length,
    }
  })
  assert.ok(rows >= 99_000, `${rows} rows`)
  assert.ok(longest <= 100, `${longest} ms`)
  assert.ok(nodes < 120, `${nodes} rows in the page`)
  const grown = (await heapOf(page)) - heap
  assert.ok(grown < 40 * 1024 * 1024, `${grown} bytes more`)
  console.log(
    `100,000 rows: longest task ${longest} ms, ${nodes} rows in the page, ${Math.round(grown / 1024)} KB more`,
  )
})

test('beyond what an element can hold the scrollbar is scaled, and every row is reached', { skip }, async () => {
  const { page, go } = await openDashboard(api)
  await go('/tables/big')
  await page.getByRole('gridcell', { name: 'word 1', exact: true }).waitFor()
  // Each page is known by the one in front of it, so the way leads through all of them.
  const read = await page.evaluate(async () => {
    const grid = document.querySelector('[role=grid]') as HTMLElement
    const last = () => Number([...document.querySelectorAll('[role=row]')].at(-1)?.getAttribute('aria-rowindex'))
    const deadline = performance.now() + 900_000
    while (last() < 490_000 && performance.now() < deadline) {
      grid.scrollTop = grid.scrollHeight
      await new Promise((resolve) => requestAnimationFrame(resolve))
    }
    return { rows: last(), height: (document.querySelector('.grid-body') as HTMLElement).offsetHeight }
  })
  assert.deepEqual([read.rows >= 490_000, read.height], [true, 16_000_000])
  /** The words in view, below the header. */
  const inView = () =>
    page.evaluate(() => {
      const box = document.querySelector('[role=grid]')?.getBoundingClientRect() as DOMRect
      return [...document.querySelectorAll('[data-column=word]')].flatMap((cell) => {
        const { top, bottom } = cell.getBoundingClientRect()
        return top >= box.top + 35 && bottom <= box.bottom && cell.textContent ? [cell.textContent] : []
      })
    })
  await eventually(async () => assert.ok((await inView()).length > 10))
  const [first = ''] = await inView()
  const number = Number(first.slice(5))
  assert.ok(number > 480_000)
  await page.getByRole('gridcell', { name: `word ${number + 3}`, exact: true }).click()
  await page.keyboard.press('ArrowUp')
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), `word ${number + 2}`)
  await page.mouse.wheel(0, -330)
  await eventually(async () => assert.equal((await inView())[0], `word ${number - 10}`))
  await page.keyboard.press('Control+Home')
  await eventually(async () => assert.equal((await inView())[0], 'word 1'))
})

/** What lives in the page after a collection. */
async function heapOf(page: Page): Promise<number> {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('HeapProfiler.collectGarbage')
  const { usedSize } = await cdp.send('Runtime.getHeapUsage')
  await cdp.detach()
  return usedSize
}

test('fifty changes a second of the shown table keep it usable', { skip }, async () => {
  const { page, go, troubles } = await openDashboard(api)
  await go('/tables/busy')
  await page.getByText('● live').waitFor()
  let isOver = false
  const changes = (async () => {
    for (let turn = 1; !isOver; turn++) {
      await Promise.all(
        Array.from({ length: 5 }, (_, index) =>
          api.call(`PATCH /api/collections/busy/${1 + ((turn * 5 + index) % 100)}`, {
            as: 'admin',
            json: { counter: turn },
          }),
        ),
      )
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  })()
  await page.locator('.grid-cell.flash').first().waitFor({ state: 'attached' })
  await page.locator('[role=gridcell][data-column=counter]').nth(3).dblclick()
  await page.getByLabel('Edit counter').fill('777')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('1 change saved').waitFor()
  isOver = true
  await changes
  await eventually(async () => assert.ok((await page.locator('.grid-row').count()) > 20))
  assert.deepEqual(troubles, [])
})

test('three hundred tables: the list, the diagram, the palette and the matrix show them', { skip }, async () => {
  await api.sql(
    `do $$ begin for i in 1..300 loop execute format('create table %I (id int primary key, t%s int references busy)', 'table ' || i, i); end loop; end $$`,
  )
  const { page, go, troubles } = await openDashboard(api)
  await go('/tables')
  await page.getByRole('link', { name: 'table 300', exact: true }).waitFor()
  await go('/schema')
  await page.locator('.entity').first().waitFor()
  await go('/policies')
  await page.getByRole('link', { name: 'table 299', exact: true }).waitFor()
  assert.deepEqual(troubles, [])
})
