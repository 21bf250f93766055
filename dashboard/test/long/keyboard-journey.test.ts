import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { atEnd } from '../../../test/kit/at-end.ts'
import { skip } from '../../../test/kit/browser.ts'
import { eventually } from '../../../test/kit/eventually.ts'
import { openDashboard, paste, startDashboard } from '../kit/dashboard.ts'

const api = await startDashboard({ config: { 'webhooks.allow_private_networks': true } })
const ana = await api.signUp('ana@example.com')
const received: string[] = []
const receiver = createServer((request, response) => {
  request.on('data', (chunk) => void received.push(String(chunk)))
  request.on('end', () => response.end())
})
receiver.listen(0, '127.0.0.1')
atEnd(() => void receiver.close())

test('the whole journey with the keyboard alone', { skip }, async () => {
  const { page, go, troubles } = await openDashboard(api, { signedIn: false })
  const { keyboard } = page
  const focused = (): Promise<string> =>
    page.evaluate(() => {
      const element = document.activeElement as HTMLInputElement | null
      const label = element?.labels?.[0]?.textContent
      const inside = element?.shadowRoot?.activeElement?.className
      return (element?.getAttribute('aria-label') ?? label ?? (element?.textContent || inside) ?? '').trim()
    })
  /** Presses Tab until what has the focus is called so. */
  const tabTo = async (name: string | RegExp): Promise<void> => {
    const seen: string[] = []
    for (let step = 0; step < 200; step++) {
      await keyboard.press('Tab')
      const now = await focused()
      seen.push(now.slice(0, 30))
      if (typeof name === 'string' ? now === name : name.test(now)) return
    }
    assert.fail(`${name} is not reached: ${seen.join(' | ')}`)
  }
  const command = async (text: string, heading?: string): Promise<void> => {
    await keyboard.press('Control+K')
    await page.getByRole('combobox', { name: /Find a page/ }).waitFor()
    await keyboard.type(text)
    await page.getByRole('dialog', { name: 'Search' }).getByRole('option').first().waitFor()
    await keyboard.press('Enter')
    if (heading) await page.getByRole('heading', { level: 1, name: heading, exact: true }).waitFor()
  }

  await go('/')
  await page.getByLabel('Password').waitFor()
  await keyboard.type('correct horse battery staple')
  await keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()

  // A table with a policy.
  await command('New table')
  await page.getByRole('dialog', { name: 'New table' }).waitFor()
  await tabTo('Name')
  await keyboard.type('chores')
  await tabTo('Create table')
  await keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'chores', exact: true }).waitFor()

  // Rows from a spreadsheet, saved and undone.
  await tabTo('Add row')
  await keyboard.press('Enter')
  await page.locator('.grid-row.new').waitFor()
  for (let step = 0; step < 60; step++) {
    if (await page.evaluate(() => document.activeElement?.getAttribute('role') === 'gridcell')) break
    await keyboard.press('Tab')
  }
  await keyboard.press('Home')
  await paste(page, `title\towner\nSweep\t${ana.user.id}\nWash\t${ana.user.id}`)
  await page.getByText('4 changes', { exact: true }).waitFor()
  await tabTo('Save')
  await keyboard.press('Enter')
  await page.getByText('4 changes saved').waitFor()
  assert.equal((await api.sql('select * from chores')).length, 2)
  await tabTo('Undo')
  await keyboard.press('Enter')
  await eventually(async () => assert.equal((await api.sql('select * from chores')).length, 0))

  // As a visitor, and back.
  await command('View as a visitor')
  await page.getByRole('button', { name: 'Back to administrator' }).waitFor()
  await command('Back to administrator')
  await page.getByRole('button', { name: 'Back to administrator' }).waitFor({ state: 'detached' })

  // SQL with a chart. Tab leaves the editor.
  await command('SQL', 'SQL')
  await page.locator('.cm-content').waitFor()
  const isInEditor = () =>
    page.evaluate(() => document.activeElement?.shadowRoot?.activeElement?.classList.contains('cm-content') ?? false)
  for (let step = 0; step < 80 && !(await isInEditor()); step++) await keyboard.press('Tab')
  await keyboard.press('Control+A')
  await keyboard.type('select n as x, n * n as y from generate_series(1, 5) n')
  await keyboard.press('Control+Enter')
  await page.getByRole('gridcell', { name: '25', exact: true }).waitFor()
  await keyboard.press('Escape')
  await tabTo('Chart')
  await keyboard.press('Enter')
  await page.locator('canvas').waitFor()

  // A webhook and its delivery.
  await command('Webhooks', 'Webhooks')
  await tabTo('New webhook')
  await keyboard.press('Enter')
  await tabTo(/^Address/)
  await keyboard.type(`http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`)
  await keyboard.press('Enter')
  await page.getByText('The webhook is there').waitFor()
  await api.call('POST /api/collections/chores', { as: ana.token, json: { title: 'Dust' } })
  await eventually(() => assert.match(received.join(), /Dust/))

  // A user is invited, and another disabled.
  await command('Invite a user')
  await page.getByRole('dialog', { name: 'Invite a user' }).waitFor()
  await tabTo(/^Address/)
  await keyboard.type('cleo@example.com')
  await keyboard.press('Enter')
  await page.getByText('cleo@example.com was invited').waitFor()
  await command('ana@example', 'ana@example.com')
  await tabTo('Disable')
  await keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  await tabTo('Disable')
  await keyboard.press('Enter')
  await page.getByText('disabled', { exact: true }).waitFor()

  // And out.
  await command('Sign out')
  await page.getByLabel('Password').waitFor()
  assert.deepEqual(troubles, [])
})
