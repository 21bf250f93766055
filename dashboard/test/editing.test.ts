import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skip } from '../../test/kit/browser.ts'
import { openDashboard, startDashboard } from './kit/dashboard.ts'

const api = await startDashboard()
await api.sql('create table notes (id int primary key, title text)')
await api.sql("insert into notes select i, 'note ' || i from generate_series(1, 5) i")
await api.sql("select svc.watch('public.notes')")

const ROWS = '**/api/collections/notes?*'

test('what is done to a cell is not lost because rows come or change', { skip }, async () => {
  const { page, go, troubles } = await openDashboard(api)
  const { keyboard } = page
  const title = (row: number) => page.locator('[role=gridcell][data-column=title]').nth(row)
  const editor = page.getByLabel('Edit title')

  // A double click before the row is there: the editor opens with it.
  let answer = (): void => undefined
  const held = new Promise<void>((resolve) => {
    answer = resolve
  })
  await page.route(ROWS, async (route) => {
    await held
    await route.continue()
  })
  await go('/tables/notes?sort=-id')
  await title(1).dblclick()
  assert.equal(await editor.count(), 0)
  answer()
  await editor.waitFor()
  assert.equal(await editor.inputValue(), 'note 4')
  await page.unroute(ROWS)

  // Rows that come above move the editor with its row.
  await page.getByText('● live').waitFor()
  await editor.fill('mine')
  await api.call('POST /api/collections/notes', { as: 'admin', json: { id: 6, title: 'note 6' } })
  await page.getByRole('gridcell', { name: 'note 6', exact: true }).waitFor()
  assert.equal(await editor.inputValue(), 'mine')
  await keyboard.press('Enter')
  await page.getByText('1 change', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('1 change saved').waitFor()
  assert.deepEqual(await api.sql('select id, title from notes where id between 3 and 5 order by id'), [
    { id: '3', title: 'note 3' },
    { id: '4', title: 'mine' },
    { id: '5', title: 'note 5' },
  ])

  // A cell that others change keeps the focus, and every key that is typed reaches it.
  await title(0).click()
  await api.call('PATCH /api/collections/notes/6', { as: 'admin', json: { title: 'theirs' } })
  await page.locator('.grid-cell.flash', { hasText: 'theirs' }).waitFor()
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'theirs')
  const focused = await page.evaluate(async () => {
    const key = new KeyboardEvent('keydown', { key: 'a', bubbles: true, cancelable: true })
    document.activeElement?.dispatchEvent(key)
    // No further task, in which the next key could come.
    for (let turn = 0; turn < 5; turn++) await null
    return document.activeElement?.tagName
  })
  assert.equal(focused, 'INPUT')
  await keyboard.type('bc')
  assert.equal(await editor.inputValue(), 'abc')
  await keyboard.press('Escape')
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'theirs')
  assert.deepEqual(troubles, [])
})
