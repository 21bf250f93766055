import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startReceiver } from '../../../../test/fakes/receiver.ts'
import { eventually, startServer } from '../../../../test/kit/kit.ts'
import { upload } from '../../../../test/kit/upload.ts'

test('an object named * purges itself at CloudFront, and not its bucket', async () => {
  const cloud = await startReceiver((_request, response) => {
    response.writeHead(201, { 'content-type': 'text/xml' })
    response.end('<?xml version="1.0"?><Invalidation><Id>I1</Id><Status>InProgress</Status></Invalidation>')
  })
  after(() => cloud.close())
  Object.assign(process.env, {
    AWS_ENDPOINT_URL_CLOUDFRONT: cloud.url,
    AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE',
    AWS_SECRET_ACCESS_KEY: 'secret',
  })
  const api = await startServer({
    config: { 'storage.cdn.provider': 'cloudfront', 'storage.cdn.distribution_id': 'D1' },
  })
  const stored = await upload(api, '/api/storage/pub', { name: 'a/*', content: 'star' })
  assert.match(stored.body.url, /\/pub\/a\/%2A$/)
  assert.equal((await api.call('GET /api/storage/pub/a/%2A')).text, 'star')
  assert.equal((await api.call('GET /api/storage/pub/a/*')).text, 'star')
  await api.call('DELETE /api/storage/pub/a/%2A')
  await eventually(() => assert.equal(cloud.received.length, 1))
  assert.match(cloud.received[0]?.body ?? '', /<Path>\/api\/storage\/pub\/a\/%2A<\/Path>/)
  const json = { urls: ['https://cdn.example.test/pub/*'] }
  await api.call('POST /api/admin/storage/cdn/purge', { as: 'admin', json })
  assert.match(cloud.received[1]?.body ?? '', /<Path>\/pub\/%2A<\/Path>/)
})
