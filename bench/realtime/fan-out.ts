import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The mark: node:http that holds event streams and writes one ready buffer to all of them. POST /?count=n sends n events. */
const clients = new Set<ServerResponse>()
const server = createServer((request, response) => {
  if (request.method === 'POST') {
    const count = Number(new URL(request.url ?? '/', 'http://x').searchParams.get('count'))
    for (let i = 0; i < count; i += 50) {
      const text = `id: 812-4410\ndata: {"action":"create","table":"fan","record":{"id": ${i}, "body": "${'x'.repeat(100)}"}}\n\n`
      const bytes = Buffer.from(text.repeat(Math.min(50, count - i)))
      for (const client of clients) client.write(bytes)
    }
    response.end()
    return
  }
  response.useChunkedEncodingByDefault = false
  response.writeHead(200, { 'Content-Type': 'text/event-stream' })
  response.write('event: connected\ndata: {}\n\n')
  clients.add(response)
  response.on('close', () => clients.delete(response))
})
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
