import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skip, startBrowser } from '../../../test/kit/browser.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

const app = (version: string) => ({
  'index.html': `<!doctype html><title>demo</title><div id="app"></div><script type="module" src="/assets/app.js"></script>`,
  'assets/app.js': `
    const show = () => { document.querySelector('#app').textContent = '${version} at ' + location.pathname }
    addEventListener('popstate', show)
    window.go = (path) => { history.pushState({}, '', path); show() }
    fetch('/api/schema').then((answer) => { window.apiStatus = answer.status })
    show()`,
})

test('a single-page app opens at its own address, deep link included, and rolls back', { skip }, async () => {
  const api = await startServer()
  const admin = { as: 'admin' }
  const json = { name: 'Demo', slug: 'demo', spaMode: true }
  const { body: site } = await api.call('POST /api/admin/sites', { ...admin, json })
  const deploys = `/api/admin/sites/${site.id}/deploys`
  for (const version of ['one', 'two']) {
    const { body: deploy } = await api.call(`POST ${deploys}` as 'POST /', admin)
    for (const [name, content] of Object.entries(app(version))) {
      await upload(api, `${deploys}/${deploy.id}/files`, { ...admin, name, content })
    }
    await api.call(`POST ${deploys}/${deploy.id}/promote` as 'POST /', admin)
  }
  const home = `http://demo.localhost:${new URL(api.url).port}`
  const page = await (await startBrowser()).newPage()
  const shows = (text: string) =>
    eventually(async () => assert.equal(await page.evaluate(`document.querySelector('#app').textContent`), text))

  await page.goto(`${home}/`)
  await shows('two at /')
  await page.evaluate(`go('/users/7')`)
  await shows('two at /users/7')
  await page.reload()
  await shows('two at /users/7')
  await eventually(async () => assert.equal(await page.evaluate('window.apiStatus'), 200))

  assert.equal((await api.call(`POST ${deploys}/rollback` as 'POST /', admin)).status, 200)
  // Another visitor: what a browser holds of a script is good for an hour.
  const other = await (await startBrowser()).newPage()
  await other.goto(`${home}/users/7`)
  await eventually(async () =>
    assert.equal(await other.evaluate(`document.querySelector('#app').textContent`), 'one at /users/7'),
  )
})
