import assert from 'node:assert/strict'
import { test } from 'node:test'
import { redact } from './redact.ts'

const cases: [text: string, safe: string][] = [
  ['/api/realtime?token=abc.def&tables=a', '/api/realtime?token=***&tables=a'],
  ['/cb?code=x&state=y', '/cb?code=***&state=***'],
  ['/api/storage/b/f?sig=deadbeef&exp=1', '/api/storage/b/f?sig=***&exp=1'],
  ['/x?refreshToken=1&access_token=2&PASSWORD=3', '/x?refreshToken=***&access_token=***&PASSWORD=***'],
  ['https://app.test/#access_token=1&x=2', 'https://app.test/#access_token=***&x=2'],
  ['Authorization: Bearer abc.def-ghi', 'Authorization: Bearer ***'],
  ['postgres://me:s3cret@db.test/x', 'postgres://me:***@db.test/x'],
]
for (const [text, safe] of cases) {
  test(`a log shows ${safe}`, () => assert.equal(redact(text), safe))
}

test('text without secrets stays as it is', () => {
  for (const text of ['/api/collections/notes?filter=a=1', 'zipcode=1 tokens=2', 'http://x.test/a', 'plain', '']) {
    assert.equal(redact(text), text)
  }
})
