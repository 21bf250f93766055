import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maskJson, maskValues, redact } from './redact.ts'

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

test('a JSON text keeps its form and its numbers, without secrets', () => {
  const hex = 'ab'.repeat(32)
  const text = JSON.stringify({
    url: 'https://x.test/hook?token=abc\n"&a=1',
    headers: { Authorization: 'Bearer abc', cookie: 'a=b', accept: '*/*' },
    code: 123456,
    codes: ['111111', '222222'],
    note: `${hex} svc_${'a1'.repeat(24)} eyJhbGciOiJI.eyJzdWIi.c2ln https://x.test/accept/${'t'.repeat(43)}`,
    id: 'a4f0a1c2-0000-4000-8000-000000000000',
    'pass"word': 'x',
    country: 'code',
  })
  const masked = maskJson(`{"n":9007199254740993,"all":${text}}`)
  assert.match(masked, /"n":9007199254740993,/)
  assert.deepEqual(JSON.parse(masked).all, {
    url: 'https://x.test/hook?token=***\n"&a=1',
    headers: { Authorization: '***', cookie: '***', accept: '*/*' },
    code: '***',
    codes: ['***', '***'],
    note: '*** *** *** https://x.test/accept/***',
    id: 'a4f0a1c2-0000-4000-8000-000000000000',
    'pass"word': 'x',
    country: 'code',
  })
  assert.deepEqual(JSON.parse(maskValues(text)).code, 123456, 'names that others chose say nothing')
  assert.doesNotMatch(maskValues(text), /svc_a1|eyJhbG/)
})

test('masking takes a time that grows with the text alone', () => {
  const started = performance.now()
  maskJson(JSON.stringify({ a: 'token'.repeat(200_000), b: '\\"'.repeat(200_000), c: 'https://x/'.repeat(100_000) }))
  assert.ok(performance.now() - started < 5_000)
})
