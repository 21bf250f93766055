import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { skip, startBrowser } from '../../../test/kit/browser.ts'
import { freePort } from '../../../test/kit/free-port.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const closers: (() => Promise<unknown>)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

/** A page of another origin, as applications are. */
async function startPage(): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>page</title>')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(async () => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

test('the EventSource of a browser receives events, and resumes by itself when the server restarts', {
  skip,
}, async () => {
  const port = await freePort()
  const keeper = await startServer()
  const config = { 'server.port': port }
  const first = await startServer({ on: keeper, config })
  await keeper.sql('create table posts (id int primary key, title text)')
  const { token } = await keeper.signUp('ana@x.test')
  await eventually(async () =>
    assert.equal((await first.call('GET /api/collections/posts', { as: token })).status, 200),
  )

  const page = await (await startBrowser()).newPage()
  await page.goto(await startPage())
  await page.evaluate(
    `window.heard = []; window.connected = 0;
     const source = new EventSource('http://127.0.0.1:${port}/api/realtime?tables=posts&token=${token}');
     source.addEventListener('connected', () => window.connected++);
     source.onmessage = (event) => window.heard.push(JSON.parse(event.data).record.id);`,
  )
  const connected = () => page.evaluate('window.connected')
  const heard = () => page.evaluate('window.heard')
  const write = (id: number) => keeper.call('POST /api/collections/posts', { as: token, json: { id, title: 't' } })

  await eventually(async () => assert.equal(await connected(), 1))
  await write(1)
  await eventually(async () => assert.deepEqual(await heard(), [1]))
  await first.stop()
  await write(2)
  await write(3)
  const second = await startServer({ on: keeper, config })
  await eventually(async () => assert.equal(await connected(), 2))
  await write(4)
  await eventually(async () => assert.deepEqual(await heard(), [1, 2, 3, 4]))
  await second.stop()
})
