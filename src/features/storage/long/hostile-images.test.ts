import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hostileImages, tryHostile } from '../../../../test/fakes/hostile-images.ts'
import { startServer } from '../../../../test/kit/kit.ts'

test('200 hostile images are refused within limits, and the memory of the server is bounded', async () => {
  const api = await startServer()
  const ada = await api.signUp('ada@example.test')
  await api.call('POST /api/admin/storage/buckets', { as: 'admin', json: { name: 'vault', access: 'private' } })
  const images = await hostileImages()
  assert.ok(images.length >= 200, String(images.length))
  const before = process.memoryUsage.rss()
  assert.ok((await tryHostile(api.url, ada.token, images)) >= 90)
  const grown = (process.memoryUsage.rss() - before) / 2 ** 20
  assert.ok(grown < 256, `${grown} MB more`)
})
