// `npm run dashboard [-- http://localhost:8090]`: the dashboard at :8091/admin/, built again as its files change, in front of a
// server that runs. With the headers that the server itself sends, so that what its policy forbids is seen at once.
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { extname, join } from 'node:path'
import { watchDashboard } from './dashboard.js'
import { log, root } from './install.js'

const target = new URL(process.argv[2] ?? 'http://localhost:8090')
const port = Number(process.env['PORT'] ?? 8091)
const folder = `${root}.cache/dashboard`

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob: data:",
  "font-src 'self'",
  "connect-src 'self'",
  "frame-src 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "worker-src 'self'",
  "require-trusted-types-for 'script'",
  'trusted-types savanna',
].join('; ')

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.map': 'application/json',
}

function serveFile(path: string, response: ServerResponse): void {
  const name = /^\/admin\/(assets\/[\w.-]+)$/.exec(path)?.[1] ?? 'index.html'
  try {
    const bytes = readFileSync(join(folder, name))
    response.writeHead(200, {
      'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
      'content-security-policy': POLICY,
      'cache-control': 'no-store',
    })
    response.end(bytes)
  } catch {
    response.writeHead(404).end('not built')
  }
}

const forward = (incoming: IncomingMessage) =>
  request({
    ...{ host: target.hostname, port: target.port, path: incoming.url, method: incoming.method },
    headers: { ...incoming.headers, host: target.host, ...(incoming.headers.origin && { origin: target.origin }) },
  })

const server = createServer((incoming, response) => {
  const path = incoming.url ?? '/'
  if (/^\/admin(\/|$|\?)/.test(path)) return serveFile(path.replace(/\?.*/, ''), response)
  const outgoing = forward(incoming)
  outgoing.on('response', (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
  })
  outgoing.on('error', (error) => response.writeHead(502).end(error.message))
  incoming.pipe(outgoing)
})

server.on('upgrade', (incoming, socket, head) => {
  const outgoing = forward(incoming)
  outgoing.on('upgrade', (answer, peer, rest) => {
    const headers = Object.entries(answer.headers).map(([name, value]) => `${name}: ${value}`)
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${headers.join('\r\n')}\r\n\r\n`)
    if (rest.length > 0) socket.write(rest)
    if (head.length > 0) peer.write(head)
    peer.on('error', () => socket.destroy())
    socket.on('error', () => peer.destroy())
    peer.pipe(socket).pipe(peer)
  })
  outgoing.on('error', () => socket.destroy())
  outgoing.end()
})

await watchDashboard(folder, () => log('dashboard built'))
server.listen(port, () => log(`http://localhost:${port}/admin/ in front of ${target.origin}`))
