import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skip } from '../../test/kit/browser.ts'
import { openDashboard, startDashboard } from './kit/dashboard.ts'

const api = await startDashboard()
await api.sql('create table plants (id int generated always as identity primary key, name text not null, height int)')
await api.sql("insert into plants (name, height) select 'plant ' || i, i from generate_series(1, 1000) i")

test('signing in, finding a table, editing, pasting and saving, with the keyboard alone', { skip }, async () => {
  const { page, go, troubles } = await openDashboard(api, { signedIn: false })
  const { keyboard } = page
  await go('/')
  await page.getByLabel('Password').waitFor()
  await keyboard.type('correct horse battery staple')
  await keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await keyboard.press('Control+K')
  await page.getByRole('combobox', { name: /Find a page/ }).waitFor()
  await keyboard.type('plants')
  await page.getByRole('option', { name: /plants/ }).waitFor()
  await keyboard.press('Enter')
  await page.getByRole('gridcell', { name: 'plant 1', exact: true }).waitFor()

  // Tab reaches the grid as one stop; arrows move in it.
  const isInGrid = () => page.evaluate(() => document.activeElement?.closest('[role=grid]') !== null)
  for (let step = 0; step < 60 && !(await isInGrid()); step++) await keyboard.press('Tab')
  for (
    let step = 0;
    step < 5 && !(await page.evaluate(() => document.activeElement?.getAttribute('role') === 'gridcell'));
    step++
  )
    await keyboard.press('Tab')
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), '1')
  await keyboard.press('ArrowRight')
  await keyboard.press('ArrowDown')
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'plant 2')
  await keyboard.press('Enter')
  await page.getByLabel('Edit name').waitFor()
  await keyboard.type('acacia')
  await keyboard.press('Enter')
  await page.getByText('1 change', { exact: true }).waitFor()
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'acacia')

  // A range is copied from here and pasted there.
  await keyboard.press('Shift+ArrowDown')
  await keyboard.press('Control+C')
  for (let step = 0; step < 3; step++) await keyboard.press('ArrowDown')
  await keyboard.press('Control+V')
  await page.getByText('3 changes', { exact: true }).waitFor()

  // Escape leaves an editor; Space opens the row.
  await keyboard.press('F2')
  await page.getByLabel('Edit name').waitFor()
  await keyboard.press('Escape')
  await page.getByLabel('Edit name').waitFor({ state: 'detached' })
  for (let step = 0; step < 40; step++) {
    await keyboard.press('Tab')
    if (await page.evaluate(() => document.activeElement?.textContent === 'Save')) break
  }
  await keyboard.press('Enter')
  await page.getByText('3 changes saved').waitFor()
  const rows = await api.sql("select id from plants where name in ('acacia') order by id")
  assert.deepEqual(
    rows.map(({ id }) => id),
    ['2', '6'],
  )
  assert.deepEqual(troubles, [])
})
