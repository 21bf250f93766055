import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skip } from '../../../test/kit/browser.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { openDashboard, startDashboard } from '../kit/dashboard.ts'

test('the overview advises, and its SQL is looked at before it runs', { skip }, async () => {
  const api = await startDashboard()
  await api.sql(`create table doubles (id int primary key, n int); alter table doubles enable row level security;
    create index first on doubles (n); create index again on doubles (n)`)
  await eventually(async () => {
    const { body } = await api.call('GET /api/admin/advice', { as: 'admin' })
    assert.equal(body.items.length, 1)
  })
  const { page, go, troubles } = await openDashboard(api)
  await go('/')
  const card = page.locator('section', { has: page.getByRole('heading', { name: 'Advice', exact: true }) })
  await card.getByText('doubles: the index again is the same as first').waitFor()
  await card.getByRole('button', { name: /^Open the SQL/ }).click()
  await page.getByRole('heading', { level: 1, name: 'SQL', exact: true }).waitFor()
  await page.getByText('drop index concurrently public.again;').waitFor()
  await api.sql('drop index again')
  await go('/')
  await card.getByText('none').waitFor()
  assert.deepEqual(troubles, [])
})
