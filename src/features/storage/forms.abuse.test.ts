import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
const part = (disposition: string, more = '') =>
  `--B\r\nContent-Disposition: form-data; ${disposition}\r\n${more}\r\nx\r\n`
const FILE = 'name="file"; filename="f.txt"'
const post = async (body: string) => {
  const headers = { 'content-type': 'multipart/form-data; boundary=B' }
  const answer = await api.call('POST /api/storage/forms', { body: `${body}--B--\r\n`, headers })
  return `${answer.status} ${answer.body.message ?? ''}`.trim()
}
const invalid = '400 invalid multipart form or file too large'

test('a part has as many headers as a form needs', async () => {
  assert.equal(await post(part(FILE, 'X-A: b\r\n'.repeat(31))), '201')
  assert.equal(await post(part('name="name"') + part(FILE)), '201')
  for (const form of [
    part(FILE, 'X-A: b\r\n'.repeat(32)),
    part(FILE, 'X-A: b\r\n'.repeat(10_000)),
    part('name="name"', 'X-A: b\r\n'.repeat(40)) + part(FILE),
    part(FILE, `X-A: ${'b'.repeat(20_000)}\r\n`),
  ]) {
    assert.equal(await post(form), invalid)
  }
})

test('a form whose file has another name has no file', async () => {
  const missing = '400 missing "file" field in multipart form'
  assert.equal(await post(part('name="upload"; filename="f.txt"')), missing)
  assert.equal(await post(part('name="upload"; filename="f.txt"') + part('name="name"')), missing)
  assert.equal(await post(part('name="upload"; filename="f.txt"') + part(FILE)), invalid)
})
