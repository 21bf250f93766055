import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { eventually } from '../../../test/kit/eventually.ts'
import { PlainHeads, requestsUpgradedIf, responseOn } from './node-internals.ts'

/** What a client receives from a server with this handler. */
async function answered(
  handle: (response: ServerResponse, socket: Socket) => void,
  headers: Record<string, string> = {},
): Promise<{ answer: IncomingMessage; body: string }> {
  const server = createServer({ IncomingMessage: requestsUpgradedIf(() => false) }, (request, response) =>
    handle(response, request.socket),
  )
  server.on('upgrade', (_request, socket) => socket.destroy())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const [answer] = (await once(get({ port, headers }), 'response')) as [IncomingMessage]
  const body = await text(answer)
  server.closeAllConnections()
  server.close()
  return { answer, body }
}

test('a head that is set as text is what the client receives', async () => {
  const heads = new PlainHeads()
  const { answer, body } = await answered(
    (response) => {
      assert.equal(heads.accepts(response), true)
      heads.set(response, 202, 'X-Own: 1\r\nContent-Length: 2\r\n', 'ok')
      response.end()
    },
    { Connection: 'keep-alive' },
  )
  assert.deepEqual([answer.statusCode, answer.headers['x-own'], body], [202, '1', 'ok'])
  assert.ok(Math.abs(Date.parse(answer.headers.date ?? '') - Date.now()) < 60_000)
})

test('without the property, or on a connection that ends, no head is set as text', async () => {
  const { body } = await answered(
    (response) => {
      assert.equal(new PlainHeads(false).accepts(response), false)
      assert.equal(new PlainHeads().accepts(response), false)
      response.end('documented')
    },
    { Connection: 'close' },
  )
  assert.equal(body, 'documented')
})

test('a socket knows the answer that is under way on it', async () => {
  let used: Socket | undefined
  await answered((response, socket) => {
    used = socket
    assert.equal(responseOn(socket), response)
    response.end()
  })
  await eventually(() => assert.equal(used && responseOn(used), undefined))
})

test('an upgrade that nothing takes is ignored', async () => {
  const upgrade = { Connection: 'Upgrade', Upgrade: 'h2c' }
  assert.equal((await answered((response) => response.end('answered'), upgrade)).body, 'answered')
})
