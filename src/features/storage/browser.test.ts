import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skip, startBrowser } from '../../../test/kit/browser.ts'
import { startServer } from '../../../test/kit/kit.ts'
import { upload } from '../../../test/kit/upload.ts'

test('a script in an uploaded page or picture does not run, whichever way a browser opens it', { skip }, async () => {
  const api = await startServer()
  const script = '<script>document.title = "ran"</script>'
  await api.call('POST /api/admin/storage/buckets', { as: 'admin', json: { name: 'shown', inline: true } })
  await upload(api, '/api/storage/shown', { name: 'a.html', content: `<!doctype html><title>still</title>${script}` })
  const svg = `<svg xmlns="http://www.w3.org/2000/svg"><title>still</title>${script}</svg>`
  await upload(api, '/api/storage/shown', { name: 'a.svg', content: svg })
  await upload(api, '/api/storage/pub', { name: 'a.html', content: script })

  const page = await (await startBrowser()).newPage()
  await page.goto(`data:text/html,${encodeURIComponent(script)}`)
  assert.equal(await page.title(), 'ran', 'where nothing forbids it, it runs')
  for (const name of ['a.html', 'a.svg']) {
    await page.goto(`${api.url}/api/storage/shown/${name}`)
    assert.equal(await page.title(), 'still')
  }
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.goto(`${api.url}/api/storage/pub/a.html`).catch(() => {}),
  ])
  assert.equal(download.suggestedFilename(), 'a.html')
})
