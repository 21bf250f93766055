import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { atEnd } from '../../test/kit/at-end.ts'
import { skip } from '../../test/kit/browser.ts'
import { eventually } from '../../test/kit/eventually.ts'
import { openDashboard, paste, startDashboard, typeInto } from './kit/dashboard.ts'
import { ODD, ODD_TABLES } from './kit/seed.ts'

const api = await startDashboard({ config: { 'webhooks.allow_private_networks': true } })
await api.sql(ODD)
const ana = await api.signUp('ana@example.com')
const ben = await api.signUp('ben@example.com')

const received: string[] = []
const receiver = createServer((request, response) => {
  let text = ''
  request.on('data', (chunk) => (text += chunk))
  request.on('end', () => {
    received.push(text)
    response.end('thanks')
  })
})
receiver.listen(0, '127.0.0.1')
atEnd(() => void receiver.close())

test('beside 300 odd tables, from signing in to a table that works: rows, other callers, live changes, undo, SQL, webhook, file, users', {
  skip,
}, async () => {
  const { page, go, signIn, troubles } = await openDashboard(api, { signedIn: false })
  const heading = (name: string) => page.getByRole('heading', { level: 1, name, exact: true })
  const cell = (text: string) => page.getByRole('gridcell', { name: text, exact: true })

  // Signing in leads to where one wanted to go.
  await go('/tables')
  await signIn()
  await heading('Tables').waitFor()

  // A new table with the ready policy of owners.
  await page.getByRole('button', { name: 'New table' }).first().click()
  const dialog = page.getByRole('dialog', { name: 'New table' })
  await dialog.getByLabel('Name', { exact: true }).fill('tasks')
  await dialog.getByRole('button', { name: 'Add column' }).click()
  await dialog.getByLabel('Name of column 3').fill('points')
  await dialog.getByLabel('Type of points').selectOption('integer')
  await dialog.getByRole('radio', { name: /Owner’s rows/ }).check()
  await dialog.getByRole('button', { name: 'Create table' }).click()
  await heading('tasks').waitFor()
  const schema = await api.call('GET /api/schema', { as: 'admin' })
  const table = schema.body.tables['public.tasks']
  assert.deepEqual(
    [table.rlsEnabled, table.rlsPolicies.map(({ name }: { name: string }) => name)],
    [true, ['owner_rows']],
  )

  // Rows from a spreadsheet: the first line names the columns.
  await page.getByRole('button', { name: 'Add row' }).click()
  await page.locator('[role=gridcell][data-column=title]').first().click()
  await paste(
    page,
    `title\tpoints\towner\nFeed the lions\t3\t${ana.user.id}\nWash the zebra\t5\t${ana.user.id}\n"Two\nlines"\t\t${ben.user.id}`,
  )
  await page.getByText('8 changes', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('8 changes saved').waitFor()
  await cell('Feed the lions').waitFor()
  const rows = await api.sql('select title, points from tasks order by id')
  assert.deepEqual(rows, [
    { title: 'Feed the lions', points: '3' },
    { title: 'Wash the zebra', points: '5' },
    { title: 'Two\nlines', points: null },
  ])

  // A change that somebody else makes over the API appears by itself.
  await page.getByText('● live').waitFor()
  await api.call('PATCH /api/collections/tasks/2', { as: ana.token, json: { title: 'Wash two zebras' } })
  await cell('Wash two zebras').waitFor()
  await page.locator('.grid-cell.flash').first().waitFor({ state: 'attached' })

  // As each of the two users, with how much they do not see.
  for (const [person, seen, hidden] of [
    [ana, 2, 1],
    [ben, 1, 2],
  ] as const) {
    await page.getByRole('button', { name: 'View as', exact: true }).click()
    const as = page.getByRole('dialog', { name: 'View as' })
    await as.getByRole('radio', { name: /^User/ }).check()
    await as.getByRole('combobox', { name: 'User' }).fill(person.user.email)
    await as.getByRole('option', { name: person.user.email }).click()
    await as.getByRole('button', { name: 'View', exact: true }).click()
    await page.getByText(`${seen} row${seen === 1 ? '' : 's'} of 3, ${hidden} not seen`).waitFor()
    await eventually(async () => assert.equal(await page.locator('.grid-row').count(), seen))
    await page.getByRole('button', { name: 'Back to administrator' }).click()
  }
  await eventually(async () => assert.equal(await page.locator('.grid-row').count(), 3))

  // A refused edit shows at its cell and keeps everything; a saved one can be undone.
  await typeInto(page, page.locator('[role=gridcell][data-column=title]').first(), 'Feed all lions')
  await page.locator('[role=gridcell][data-column=points]').nth(1).click()
  await page.keyboard.type('99999999999')
  await page.keyboard.press('Enter')
  await page.getByText('2 changes', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText(/Nothing was saved/).waitFor()
  await page.locator('.grid-cell.bad').first().waitFor()
  assert.deepEqual(await api.sql("select count(*) from tasks where title = 'Feed all lions'"), [{ count: '0' }])
  await page.locator('[role=gridcell][data-column=points]').nth(1).click()
  await page.keyboard.type('6')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('2 changes saved').waitFor()
  await page.getByRole('button', { name: 'Undo', exact: true }).last().click()
  await eventually(async () =>
    assert.deepEqual(await api.sql('select title, points from tasks where id < 3 order by id'), [
      { title: 'Feed the lions', points: '3' },
      { title: 'Wash two zebras', points: '5' },
    ]),
  )

  // A whole request is undone at once: here that of the undo, and then that one's.
  await page.getByRole('tab', { name: 'History' }).click()
  const undos = page.getByRole('button', { name: 'Undo its request' })
  for (const [title, points] of [
    ['Feed all lions', '6'],
    ['Feed the lions', '5'],
  ]) {
    await undos.first().waitFor()
    const before = await undos.count()
    await undos.first().click()
    await page.getByRole('dialog', { name: 'Undo the whole request?' }).getByRole('button', { name: 'Undo' }).click()
    await eventually(async () =>
      assert.deepEqual(await api.sql(`select a.title, b.points from tasks a, tasks b where a.id = 1 and b.id = 2`), [
        { title, points },
      ]),
    )
    await undos.nth(before + 1).waitFor() // the list has the two changes of the undo
  }

  // SQL with a chart, and the guard before what has no WHERE.
  await page.getByRole('link', { name: 'SQL', exact: true }).click()
  await page.locator('.cm-content').click()
  await page.keyboard.press('Control+A')
  await page.keyboard.insertText("select title, points from tasks order by id; select 'second' as word")
  await page.keyboard.press('Control+Enter')
  await cell('second').waitFor()
  const result = page.getByRole('region', { name: 'Result 1' })
  await result.getByRole('button', { name: 'Chart' }).click()
  await result.locator('canvas').waitFor()
  await page.locator('.cm-content').click()
  await page.keyboard.press('Control+A')
  await page.keyboard.insertText('delete from tasks')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByText('would write 3 rows').waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()
  assert.deepEqual(await api.sql('select count(*) from tasks'), [{ count: '3' }])

  // A webhook, and its delivery.
  await page.getByRole('link', { name: 'Webhooks' }).click()
  await page.getByRole('button', { name: 'New webhook' }).click()
  await page.getByLabel('Address').fill(`http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`)
  await page.getByLabel('Tables', { exact: true }).fill('tasks')
  await page.getByRole('button', { name: 'Create' }).click()
  await page.getByText('The webhook is there').waitFor()
  await api.call('POST /api/collections/tasks', { as: ana.token, json: { title: 'Count the cranes' } })
  await eventually(() => assert.match(received.join(), /Count the cranes/))
  await page.getByRole('button', { name: 'Deliveries' }).click()
  const deliveries = page.getByRole('dialog', { name: 'Deliveries' })
  await deliveries.getByText('create of').waitFor()
  await deliveries.getByRole('button', { name: 'Details' }).first().click()
  await deliveries.getByText(/Count the cranes/).waitFor()
  await deliveries.getByText('thanks').waitFor()
  await page.keyboard.press('Escape')

  // A file, and a link to it that ends by itself.
  await page.getByRole('link', { name: 'Storage' }).click()
  await page.getByRole('button', { name: 'New bucket' }).first().click()
  await page.getByLabel('Name', { exact: true }).fill('papers')
  await page.getByRole('button', { name: 'Create' }).click()
  await page.getByRole('link', { name: 'papers' }).click()
  await heading('papers').waitFor()
  const chooser = page.waitForEvent('filechooser')
  await page.getByRole('button', { name: 'Upload' }).click()
  await (await chooser).setFiles({ name: 'plan.txt', mimeType: 'text/plain', buffer: Buffer.from('lions at dawn') })
  await page.getByRole('button', { name: 'plan.txt', exact: true }).click()
  await page.getByText('lions at dawn').waitFor()
  await page.getByRole('button', { name: 'Signed link' }).click()
  await page.getByRole('button', { name: 'Make the link' }).click()
  const link = await page.getByRole('region', { name: 'Signed link' }).textContent()
  assert.equal(await (await fetch(link ?? '')).text(), 'lions at dawn')
  await page.keyboard.press('Escape')

  // A user is invited; another is disabled and enabled.
  await page.getByRole('link', { name: 'Users', exact: true }).click()
  await page.getByRole('button', { name: 'Invite' }).click()
  await page.getByRole('dialog').getByLabel('Address').fill('cleo@example.com')
  await page.getByRole('button', { name: 'Send the invitation' }).click()
  await page.getByText('cleo@example.com was invited').waitFor()
  await page.getByRole('link', { name: 'ben@example.com' }).click()
  await heading('ben@example.com').waitFor()
  await page.getByRole('button', { name: 'Disable' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click()
  await page.getByText('disabled', { exact: true }).waitFor()
  assert.equal((await api.call('GET /api/auth/me', { as: ben.token })).status, 401)
  await page.getByRole('button', { name: 'Enable' }).click()
  await page.getByRole('button', { name: 'Disable' }).waitFor()
  assert.deepEqual(troubles, [])
})

test('tables of every type, with odd names, two keys, no key or partitions, and views show their rows', {
  skip,
}, async () => {
  const { page, go, walk, troubles } = await openDashboard(api)
  await go('/tables')
  for (const name of ODD_TABLES) {
    await walk(`/tables/${encodeURIComponent(name)}`)
    await page.getByRole('heading', { level: 1, name, exact: true }).waitFor()
    await page.getByRole('gridcell', { name: 'of an odd table', exact: true }).first().waitFor()
  }
  await walk(`/tables/${encodeURIComponent('odd "table" no. 292 🦁')}?tab=structure`)
  await page.getByText('co"lumn.292').first().waitFor()
  assert.deepEqual(troubles, [])
})
