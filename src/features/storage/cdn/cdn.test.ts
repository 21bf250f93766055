import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, test } from 'node:test'
import { startReceiver } from '../../../../test/fakes/receiver.ts'
import { eventually, startServer } from '../../../../test/kit/kit.ts'
import { upload } from '../../../../test/kit/upload.ts'
import { createOutgoing } from '../../../http/out/outgoing.ts'
import { cloudflare } from './provider.ts'

const receiver = await startReceiver()
after(() => receiver.close())
const config = {
  'storage.cdn.provider': 'webhook',
  'storage.cdn.endpoint': `${receiver.url}/purge`,
  'storage.cdn.signing_secret': 'shh',
  'storage.cdn_url': 'https://cdn.example.test/files/',
}
const api = await startServer({ config })
const purge = (json: unknown) => api.call('POST /api/admin/storage/cdn/purge', { as: 'admin', json })
const orders = () => receiver.received.map(({ body }) => JSON.parse(body))

test('an overwrite and a delete purge the public address, and a first upload does not', async () => {
  const stored = await upload(api, '/api/storage/pub', { name: 'a b.txt', content: '1' })
  assert.equal(stored.body.url, 'https://cdn.example.test/files/pub/a%20b.txt')
  assert.deepEqual(await api.sql(`select from svc.queue where kind = 'cdn.purge'`), [])
  receiver.answer = (_request, response) => {
    // The first attempt fails: the purge is retried, and the upload is not affected.
    receiver.answer = (_again, good) => void good.writeHead(204).end()
    response.writeHead(500).end()
  }
  assert.equal((await upload(api, '/api/storage/pub', { name: 'a b.txt', content: '2' })).status, 201)
  await eventually(() => assert.ok(receiver.received.length >= 1))
  await eventually(async () => {
    await api.sql(`update svc.queue set run_at = now() where kind = 'cdn.purge' and lease_until is null`)
    assert.ok(receiver.received.length >= 2)
  })
  await api.call('DELETE /api/storage/pub/a%20b.txt')
  await eventually(() => assert.ok(receiver.received.length >= 3))
  for (const { body, headers, path } of receiver.received) {
    assert.deepEqual(JSON.parse(body), { urls: [stored.body.url] })
    assert.equal(headers['x-svc-signature'], createHmac('sha256', 'shh').update(body).digest('hex'))
    assert.equal(path, '/purge')
  }
})

test('objects of private buckets are in no cache, and a bucket that becomes private leaves them', async () => {
  await api.call('POST /api/admin/storage/buckets', { as: 'admin', json: { name: 'vault' } })
  await upload(api, '/api/storage/vault', { name: 'x', content: '1' })
  receiver.received.length = 0
  await api.call('PUT /api/admin/storage/buckets/vault', { as: 'admin', json: { public: false } })
  await eventually(() => assert.deepEqual(orders(), [{ urls: ['https://cdn.example.test/files/vault/x'] }]))
  await upload(api, '/api/storage/vault', { as: 'admin', name: 'x', content: '2' })
  assert.deepEqual(await api.sql(`select from svc.queue where kind = 'cdn.purge'`), [])
})

test('the admin purges addresses, or everything once a minute', async () => {
  receiver.received.length = 0
  const some = await purge({ urls: ['https://cdn.example.test/a', 'https://cdn.example.test/b'], purge_all: false })
  assert.equal(some.status, 202)
  assert.deepEqual(some.body, { operation: 'purge_urls', submitted: 2, provider: 'webhook' })
  const all = await purge({ purge_all: true, urls: [] })
  assert.deepEqual([all.status, all.body], [202, { operation: 'purge_all', submitted: 0, provider: 'webhook' }])
  assert.equal(all.headers.get('x-ratelimit-limit'), '1')
  assert.deepEqual(orders(), [
    { urls: ['https://cdn.example.test/a', 'https://cdn.example.test/b'] },
    { purge_all: true },
  ])
  const over = await purge({ purge_all: true })
  assert.deepEqual(over.body, { code: 429, error: 'rate_limited', message: 'cdn purge_all rate limit exceeded' })
  assert.ok(Number(over.headers.get('retry-after')) >= 1)
  assert.equal(over.headers.get('x-ratelimit-remaining'), '0')
  assert.equal((await purge({ urls: ['https://cdn.example.test/a'] })).status, 202)
})

test('as a job, a purge has the payload of the endpoint and everything waits for its turn', async () => {
  receiver.received.length = 0
  const queued = async (payload: object) => {
    const answer = await api.call('POST /api/admin/jobs', { as: 'admin', json: { type: 'cdn_purge', payload } })
    assert.equal(answer.status, 201)
    return answer.body.id as string
  }
  const become = (id: string, state: string) =>
    eventually(async () => {
      const { body } = await api.call(`GET /api/admin/jobs/${id}`, { as: 'admin' })
      assert.equal(body.state, state)
      return body
    })
  const some = await become(await queued({ urls: ['https://cdn.example.test/a'] }), 'completed')
  assert.deepEqual(some.log, ['1 urls: webhook'])
  await become(await queued({ purge_all: true }), 'completed')
  assert.deepEqual(orders(), [{ urls: ['https://cdn.example.test/a'] }, { purge_all: true }])
  const early = await queued({ purge_all: true })
  await eventually(async () => {
    const { body } = await api.call(`GET /api/admin/jobs/${early}`, { as: 'admin' })
    assert.deepEqual([body.state, body.lastError], ['queued', 'cdn purge_all rate limit exceeded'])
  })
  const wrong = await become(await queued({ purge_all: true, urls: ['https://x.test/'] }), 'failed')
  assert.deepEqual([wrong.attempts, wrong.lastError], [1, 'choose exactly one mode: either urls or purge_all'])
  assert.equal(receiver.received.length, 2)
})

test('an order that cannot be understood is 400, one the provider does not take 502', async () => {
  const one = 'choose exactly one mode: either urls or purge_all'
  const absolute = 'urls must contain absolute public URLs'
  const cases: [unknown, string][] = [
    [{}, one],
    [{ urls: [] }, one],
    [{ purge_all: false }, one],
    [{ urls: ['https://x.test/'], purge_all: true }, one],
    [{ urls: ['/relative'] }, absolute],
    [{ urls: ['ftp://x.test/'] }, absolute],
    [{ urls: ['https://u:p@x.test/'] }, absolute],
    [{ urls: [7] }, absolute],
    [{ urls: 'https://x.test/' }, 'urls must be an array of strings'],
    [{ urls: Array(1001).fill('https://x.test/') }, 'urls must have at most 1000 items'],
    [{ urls: ['https://x.test/'], extra: 1 }, 'unknown field: extra'],
    [{ purge_all: 'yes' }, 'purge_all must be a boolean'],
  ]
  for (const [json, message] of cases)
    assert.deepEqual((await purge(json)).body, { code: 400, error: 'validation_failed', message })
  receiver.answer = (_request, response) => void response.writeHead(500).end()
  assert.deepEqual((await purge({ urls: ['https://x.test/'] })).body, {
    code: 502,
    error: 'provider_failed',
    message: 'cdn purge failed',
  })
})

test('without a provider a purge is accepted and nothing happens', async () => {
  const bare = await startServer()
  const { body } = await bare.call('POST /api/admin/storage/cdn/purge', {
    as: 'admin',
    json: { urls: ['https://x.test/'] },
  })
  assert.deepEqual(body, { operation: 'purge_urls', submitted: 1, provider: 'noop' })
})

test('Cloudflare gets at most 30 addresses in one call, with its token', async () => {
  const theirs = await startReceiver((_request, response) => void response.writeHead(200).end('{"success":true}'))
  const outgoing = createOutgoing({ allowPrivateNetworks: true })
  const provider = cloudflare({ zone_id: 'z1', api_token: 'secret' }, outgoing, theirs.url)
  await provider.purge(Array.from({ length: 31 }, (_, i) => `https://x.test/${i}`))
  await provider.purgeAll()
  assert.deepEqual(
    theirs.received.map(({ path, body, headers }) => [path, JSON.parse(body).files?.length, headers.authorization]),
    [30, 1, undefined].map((count) => ['/zones/z1/purge_cache', count, 'Bearer secret']),
  )
  assert.deepEqual(JSON.parse(theirs.received[2]?.body ?? ''), { purge_everything: true })
  await outgoing.stop()
  await theirs.close()
})

test('CloudFront gets paths, signed with the credentials of the machine', async () => {
  const theirs = await startReceiver((_request, response) => {
    response.writeHead(201, { 'content-type': 'text/xml' })
    response.end('<?xml version="1.0"?><Invalidation><Id>I1</Id><Status>InProgress</Status></Invalidation>')
  })
  Object.assign(process.env, {
    AWS_ENDPOINT_URL_CLOUDFRONT: theirs.url,
    AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE',
    AWS_SECRET_ACCESS_KEY: 'secret',
  })
  const front = await startServer({
    config: { 'storage.cdn.provider': 'cloudfront', 'storage.cdn.distribution_id': 'D1' },
  })
  const { status, body } = await front.call('POST /api/admin/storage/cdn/purge', {
    as: 'admin',
    json: { urls: ['https://x.test/a%20b?v=1', 'https://x.test/c'] },
  })
  assert.deepEqual([status, body.provider], [202, 'cloudfront'])
  const [order] = theirs.received
  assert.match(order?.path ?? '', /\/distribution\/D1\/invalidation$/)
  assert.match(order?.body ?? '', /<Path>\/a%20b<\/Path>.*<Path>\/c<\/Path>/s)
  assert.match(order?.headers.authorization ?? '', /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\//)
  await theirs.close()
})
