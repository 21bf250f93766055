import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { AppError } from '../../core/errors.ts'
import { createOutgoing, OutgoingError } from './outgoing.ts'

const strict = createOutgoing({ allowPrivateNetworks: false })
const open = createOutgoing({ allowPrivateNetworks: true })
let peer: Server
let base = ''
let connections = 0

before(async () => {
  peer = createServer((request, response) => {
    const path = request.url ?? ''
    if (path === '/moved') return response.writeHead(302, { location: '/' }).end('go')
    if (path === '/hang') return undefined
    if (path === '/drip') {
      response.writeHead(200)
      const timer = setInterval(() => response.write('.'), 20)
      return response.on('close', () => clearInterval(timer))
    }
    if (path === '/huge') {
      response.writeHead(200)
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, 'x')));
        response.once('drain', more)
      }
      return more()
    }
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    return request.on('end', () =>
      response.writeHead(200, { 'x-seen': request.headers['x-mark'] ?? '' }).end(Buffer.concat(chunks)),
    )
  })
  peer.on('connection', () => connections++)
  await new Promise<void>((resolve) => peer.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(peer.address() as AddressInfo).port}`
})
after(async () => {
  await Promise.all([strict.stop(), open.stop()])
  peer.closeAllConnections()
  peer.close()
})

const ask = (url: string, more: { timeoutMs?: number; maxBytes?: number } = {}) => ({
  method: 'POST' as const,
  url,
  headers: { 'x-mark': 'm' },
  body: 'ping',
  timeoutMs: 2_000,
  maxBytes: 65_536,
  ...more,
})
const refused = (reason: string) => (thrown: unknown) => thrown instanceof OutgoingError && thrown.reason === reason

const FORBIDDEN_WHEN_STRICT = [
  'http://127.0.0.1',
  'http://localhost',
  'http://localhost.',
  'http://0.0.0.0',
  'http://[::]',
  'http://[::1]',
  'http://[::ffff:127.0.0.1]',
  'http://[::ffff:7f00:1]',
  'http://[::127.0.0.1]',
  'http://[::ffff:0:127.0.0.1]',
  'http://[64:ff9b::7f00:1]',
  'http://[64:ff9b:1::a00:1]',
  'http://[2002:7f00:1::]',
  'http://[2001:0:4136:e378:8000:63bf:80ff:fffe]',
  'http://2130706433',
  'http://0x7f.1',
  'http://017700000001',
  'http://169.254.169.254',
  'http://[fe80::1]',
  'http://[fd00:ec2::254]',
  'http://10.1.2.3',
  'http://172.16.0.1',
  'http://192.168.1.1',
  'http://100.64.0.1',
  'http://100.100.100.200',
  'http://168.63.129.16',
  'http://[fc00::1]',
  'http://224.0.0.1',
  'http://255.255.255.255',
  'http://240.0.0.1',
  'http://192.0.2.1',
]

test('loopback, private and every disguise of them are refused before a connection is made', async () => {
  const before = connections
  for (const url of FORBIDDEN_WHEN_STRICT) {
    const expected = (thrown: unknown) =>
      thrown instanceof AppError && thrown.status === 400 && thrown.message === 'url points to a forbidden address'
    assert.throws(() => strict.assertAllowedUrl(url), expected, url)
    await assert.rejects(strict.request(ask(url)), refused('blocked'), url)
  }
  await assert.rejects(strict.request(ask(base)), refused('blocked'))
  await assert.rejects(strict.request(ask(base.replace('127.0.0.1', 'localhost'))), refused('blocked'))
  assert.equal(connections, before)
})

test('a port that speaks no HTTP may be named, and is never connected to', async () => {
  for (const url of ['http://127.0.0.1:1', 'http://127.0.0.1:22', 'http://example.com:5432']) {
    open.assertAllowedUrl(url)
    await assert.rejects(open.request(ask(url)), refused('blocked'), url)
  }
})

test('a name is judged by the address it is connected to, resolved once', async () => {
  let asked = 0
  const rebinding = createOutgoing({
    allowPrivateNetworks: false,
    resolve: (_name, _options, done) => {
      asked++
      done(null, [
        { address: '127.0.0.1', family: 4 },
        { address: '::ffff:10.0.0.1', family: 6 },
      ])
    },
  })
  const before = connections
  rebinding.assertAllowedUrl('http://rebind.test/')
  await assert.rejects(rebinding.request(ask(base.replace('127.0.0.1', 'rebind.test'))), refused('blocked'))
  assert.equal(asked, 1)
  assert.equal(connections, before)
  await rebinding.stop()
})

test('link-local, metadata and unspecified addresses stay closed when private networks are allowed', () => {
  for (const host of [
    '169.254.169.254',
    '[fe80::1]',
    '[fd00:ec2::254]',
    '100.100.100.200',
    '0.0.0.0',
    '[::]',
    '[::ffff:a9fe:a9fe]',
  ]) {
    assert.throws(() => open.assertAllowedUrl(`http://${host}/`), AppError, host)
  }
  for (const host of ['127.0.0.1', '10.0.0.1', '[::1]', '[fc00::1]', 'localhost', '93.184.216.34', 'example.com']) {
    open.assertAllowedUrl(`http://${host}/`)
  }
})

test('only absolute http and https URLs without credentials are accepted', () => {
  const messageFor = (url: string): string => {
    try {
      open.assertAllowedUrl(url)
      return ''
    } catch (thrown) {
      return (thrown as Error).message
    }
  }
  for (const url of [
    '',
    'x',
    '/hook',
    'file:///etc/passwd',
    'gopher://x/',
    'ftp://x/',
    'http://',
    `http://x/${'a'.repeat(10_000)}`,
  ]) {
    assert.equal(messageFor(url), 'url must be an absolute http or https URL', url.slice(0, 40))
  }
  assert.equal(messageFor('http://user@host/'), 'url must not include embedded credentials')
  assert.equal(messageFor('https://user:pw@host/'), 'url must not include embedded credentials')
})

test('an answer comes back with status, headers and body', async () => {
  const answer = await open.request(ask(base))
  assert.equal(answer.status, 200)
  assert.equal(answer.body, 'ping')
  assert.equal(answer.headers['x-seen'], 'm')
  assert.equal(answer.truncated, false)
})

test('redirects are not followed', async () => {
  assert.equal((await open.request(ask(`${base}/moved`))).status, 302)
})

test('an endless answer is cut at maxBytes', async () => {
  const answer = await open.request(ask(`${base}/huge`, { maxBytes: 1_000 }))
  assert.equal(answer.body.length, 1_000)
  assert.equal(answer.truncated, true)
})

test('the timeout covers the whole exchange, also one that drips', async () => {
  for (const path of ['/hang', '/drip']) {
    await assert.rejects(open.request(ask(base + path, { timeoutMs: 300 })), refused('timeout'))
  }
})
