import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skip } from '../../test/kit/browser.ts'
import { eventually } from '../../test/kit/eventually.ts'
import { openDashboard, paste, startDashboard } from './kit/dashboard.ts'

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

test('values are shown and saved as the database writes them, to the last digit', { skip }, async () => {
  await api.sql(`create table kinds (id numeric primary key, price numeric, f float8, at timestamptz, doc json, word jsonb,
    bytes bytea, list numeric[], span tstzrange, took interval)`)
  await api.sql(
    `insert into kinds values (9007199254740993.10, 12.50, 1e-7, '2026-01-02 03:04:05.123456+00', '{"b": 1.50,  "10": 12345678901234567890, "b": 2}',
    '"text"', '\\x00ff', '{1.50,NaN}', '[2026-01-01 00:00:00.000001+00,)', '1 year -3 days 04:05:06.789')`,
  )
  const { page, go, troubles } = await openDashboard(api)
  await go('/tables/kinds')
  const cells = page.locator('.grid-row').first().locator('[data-column]')
  await page.getByRole('gridcell', { name: '12.50', exact: true }).waitFor()
  const shown = async () =>
    new Map(await cells.evaluateAll((all) => all.map((cell) => [cell.getAttribute('data-column'), cell.textContent])))
  const seen = await shown()
  assert.deepEqual(
    ['id', 'price', 'f', 'at', 'doc', 'word'].map((name) => seen.get(name)),
    [
      '9007199254740993.10',
      '12.50',
      '1e-07',
      '2026-01-02T03:04:05.123456+00:00',
      '{"b": 1.50,  "10": 12345678901234567890, "b": 2}',
      '"text"',
    ],
  )

  // JSON is edited as it is, and digits that were not touched stay.
  await page.locator('[role=gridcell][data-column=doc]').dblclick()
  const value = page.getByRole('dialog', { name: 'doc' }).getByLabel('Value')
  assert.equal(await value.inputValue(), '{\n  "b": 1.50,\n  "10": 12345678901234567890,\n  "b": 2\n}')
  await value.fill('{"z": 2.50, "10": 12345678901234567891}')
  await page.getByRole('button', { name: 'Set', exact: true }).click()
  await page.locator('[role=gridcell][data-column=word]').focus()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('1 change saved').waitFor()
  assert.deepEqual(await api.sql('select doc::text, price::text from kinds'), [
    { doc: '{"z": 2.50, "10": 12345678901234567891}', price: '12.50' },
  ])

  // The rest, at the far side, and in the row beside the grid.
  await page.keyboard.press('Escape')
  await page.locator('[role=gridcell][data-column=word]').click()
  await page.keyboard.press('End')
  await page.getByRole('gridcell', { name: '1 year -3 days +04:05:06.789', exact: true }).waitFor()
  const far = await shown()
  assert.deepEqual(
    ['bytes', 'list', 'span'].map((name) => far.get(name)),
    ['\\x00ff', '[1.50,"NaN"]', '["2026-01-01 00:00:00.000001+00",)'],
  )
  await page.keyboard.press('Space')
  const panel = page.getByRole('complementary', { name: 'Row 9007199254740993.10' })
  await panel.getByRole('button', { name: 'Edit price: 12.50', exact: true }).waitFor()
  assert.deepEqual(troubles, [])
})

test('the grid does not move under the pointer: both halves of a double click reach the same cell', {
  skip,
}, async () => {
  const { page, go } = await openDashboard(api, { viewport: { width: 720, height: 450 } })
  await go('/tables/kinds')
  await page.getByRole('gridcell', { name: '12.50', exact: true }).waitFor()
  const moved = await page.evaluate(() => {
    const grid = document.querySelector('[role=grid]') as HTMLElement
    const cell = document.querySelector('[role=gridcell][data-column=at]') as HTMLElement
    // Scrolled and pressed before the page has heard of the scrolling, as a quick hand does.
    grid.scrollLeft = 350
    const before = grid.scrollLeft
    cell.dispatchEvent(new MouseEvent('mousedown', { bubbles: true, cancelable: true }))
    return [before, grid.scrollLeft]
  })
  assert.deepEqual(moved, [350, 350])
  // One that is cut off at the edge comes into view with its editor.
  await page.locator('[role=gridcell][data-column=at]').dispatchEvent('dblclick')
  const editor = page.getByLabel('Edit at')
  await editor.waitFor()
  assert.equal(await editor.inputValue(), '2026-01-02T03:04:05.123456+00:00')
  const isInView = () =>
    editor.evaluate((field) => {
      const box = field.closest('[role=grid]')?.getBoundingClientRect()
      const own = field.getBoundingClientRect()
      return box !== undefined && own.left >= box.left && own.right <= box.right
    })
  await eventually(async () => assert.ok(await isInView()))
})

test('a view is its address, and is copied as calls that give the same rows', { skip }, async () => {
  const { page, go, troubles } = await openDashboard(api)
  const filter = `(title ~ 'note%' OR id IN (4)) AND id != 2 && title != null`
  await go(`/tables/notes?sort=-id&filter=${encodeURIComponent(filter)}`)
  await page.getByRole('gridcell', { name: 'note 1', exact: true }).waitFor()
  const shown = await page.locator('[role=gridcell][data-column=id]').allTextContents()
  const copied = async (form: string): Promise<string> => {
    await page.getByRole('button', { name: 'Export' }).click()
    await page.getByRole('menuitem', { name: form }).click()
    return page.evaluate(() => navigator.clipboard.readText())
  }
  const rows = await api.sql((await copied('Copy as SQL')).replace(/;$/, ''))
  assert.deepEqual(
    rows.map(({ id }) => id),
    shown,
  )
  const query = await copied('Copy as GraphQL')
  const { body } = await api.call('POST /api/graphql', { as: 'admin', json: { query } })
  assert.deepEqual(
    body.data.notes.map(({ id }: { id: number }) => String(id)),
    shown,
  )
  assert.equal(
    await copied('Copy for the client'),
    `await svc.from("notes").list({ filter: where\`${filter}\`, sort: ["-id"], fields: ["id","title"] })`,
  )

  // Which columns are shown stands in the address too: another browser sees the same, and going back brings them back.
  const column = page.getByRole('columnheader', { name: 'title' })
  await page.getByRole('button', { name: 'Columns', exact: true }).click()
  await page.getByRole('menuitemcheckbox', { name: 'title' }).click()
  await column.waitFor({ state: 'detached' })
  assert.equal(new URL(page.url()).searchParams.get('columns'), 'id')
  await page.goBack()
  await column.waitFor()
  await go('/tables/notes?columns=title')
  await page.getByRole('columnheader', { name: 'id', exact: true }).waitFor({ state: 'detached' })
  await column.waitFor()
  assert.deepEqual(troubles, [])
})

test('rows read ahead, while the pointer rests on the link, are shown as they are by then', { skip }, async () => {
  await api.sql('create table ahead (id int primary key, word text)')
  await api.sql(`insert into ahead values (1, 'before')`)
  await api.sql("select svc.watch('public.ahead')")
  const { page, go } = await openDashboard(api)
  await go('/tables')
  const link = page.getByRole('main').getByRole('link', { name: 'ahead' })
  const read = page.waitForResponse(/\/api\/collections\/ahead/)
  await link.hover()
  await read
  await api.call('PATCH /api/collections/ahead/1', { as: 'admin', json: { word: 'after' } })
  await link.click()
  await page.getByRole('gridcell', { name: 'after', exact: true }).waitFor()
})

test('what PostgreSQL gives is not edited, and stays behind when a row is pasted', { skip }, async () => {
  await api.sql(`create table books (id bigint generated always as identity primary key, title text,
    size int generated always as (length(title)) stored); insert into books (title) values ('Emma')`)
  const { page, go, troubles } = await openDashboard(api)
  const { keyboard } = page
  await go('/tables/books')
  await page.getByRole('gridcell', { name: 'Emma' }).waitFor()
  const cell = (column: string) => page.locator(`[role=gridcell][data-column=${column}]`).first()
  await cell('size').dblclick()
  const value = page.getByRole('dialog', { name: 'size' }).getByLabel('Value')
  assert.equal(await value.getAttribute('readonly'), '')
  await keyboard.press('Escape')

  await page.getByRole('button', { name: 'Add row' }).click()
  await cell('id').click()
  await paste(page, '1\tPersuasion\t4')
  await page.getByText('1 cell pasted').waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('1 change saved').waitFor()
  assert.deepEqual(await api.sql('select id, title, size from books order by id'), [
    { id: '1', title: 'Emma', size: '4' },
    { id: '2', title: 'Persuasion', size: '10' },
  ])

  // A new row without any value says what it needs, and can be taken back alone.
  await page.getByRole('button', { name: 'Add row' }).click()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('a new row needs a value: title').first().waitFor()
  await page.getByRole('button', { name: 'Take this row back' }).click()
  await page.getByText('1 change', { exact: true }).waitFor({ state: 'detached' })
  assert.deepEqual(troubles, [])
})

test('the edit of a row that somebody else deleted holds up no other', { skip }, async () => {
  await api.sql("create table pair (id int primary key, title text); insert into pair values (1, 'one'), (2, 'two')")
  const { page, go } = await openDashboard(api)
  await go('/tables/pair?sort=id')
  for (const [name, text] of [
    ['one', 'first'],
    ['two', 'second'],
  ] as const) {
    await page.getByRole('gridcell', { name, exact: true }).dblclick()
    await page.getByLabel('Edit title').fill(text)
    await page.keyboard.press('Enter')
  }
  await page.getByText('2 changes', { exact: true }).waitFor()
  await api.call('DELETE /api/collections/pair/2', { as: 'admin' })
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('Row 2:').waitFor()
  await page.getByRole('button', { name: 'Take this row back' }).click()
  await page.getByText('1 change', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('1 change saved').waitFor()
  assert.deepEqual(await api.sql('select id, title from pair'), [{ id: '1', title: 'first' }])
})

test('a new row has the focus in the first cell that needs a value: typing goes there, and Enter adds no second row', {
  skip,
}, async () => {
  await api.sql(`create table birds (id bigint generated always as identity primary key, seen date default now(), name text);
    insert into birds (name) select 'bird ' || i from generate_series(1, 300) i`)
  const { page, go, troubles } = await openDashboard(api)
  const { keyboard } = page
  await go('/tables/birds')
  await page.getByRole('gridcell', { name: 'bird 1', exact: true }).click()
  await keyboard.press('Control+End')
  await page.getByRole('gridcell', { name: 'bird 1', exact: true }).waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Add row' }).click()
  const focused = page.locator('.grid-row.new [role=gridcell]:focus')
  await focused.waitFor()
  assert.equal(await focused.getAttribute('data-column'), 'name')
  await keyboard.press('Enter')
  await page.getByLabel('Edit name').waitFor()
  await keyboard.press('Escape')
  await focused.waitFor()
  await keyboard.type('Heron')
  await keyboard.press('Enter')
  assert.equal(await page.locator('.grid-row.new').count(), 1)

  // The next one is a row of its own, below it.
  await page.getByRole('button', { name: 'Add row' }).press('Enter')
  await page.locator('.grid-row.new').nth(1).waitFor()
  await focused.waitFor()
  await keyboard.type('Egret')
  await keyboard.press('Enter')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('2 changes saved').waitFor()
  assert.deepEqual(await api.sql('select name from birds where id > 300 order by id'), [
    { name: 'Heron' },
    { name: 'Egret' },
  ])
  assert.deepEqual(troubles, [])
})
