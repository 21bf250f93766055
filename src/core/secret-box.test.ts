import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { SecretBox } from './secret-box.ts'

const [key, other] = [randomBytes(32), randomBytes(32)]
const refused = { status: 503, message: /auth\.previous_encryption_keys/ }

test('what was sealed is opened with the same key and context, and with no others', () => {
  const box = new SecretBox(key)
  const sealed = box.seal('hush · ünï', 'webhook 1')
  assert.equal(box.open(sealed, 'webhook 1'), 'hush · ünï')
  assert.ok(sealed.startsWith(box.prefix))
  assert.notEqual(sealed, box.seal('hush · ünï', 'webhook 1'))
  assert.throws(() => new SecretBox(other).open(sealed, 'webhook 1'), refused)
  assert.throws(() => box.open(sealed, 'webhook 2'), refused)
  for (const broken of [`${sealed.slice(0, -2)}AA`, box.prefix, 'v9.AAAA', 'v1.', '']) {
    assert.throws(() => box.open(broken, 'webhook 1'), refused, broken)
  }
})

test('old keys open what they sealed, and the current one seals', () => {
  const sealed = new SecretBox(other).seal('hush', 'c')
  const box = new SecretBox(key, [other])
  assert.equal(box.open(sealed, 'c'), 'hush')
  assert.ok(!sealed.startsWith(box.prefix))
  assert.equal(new SecretBox(key).open(box.seal('hush', 'c'), 'c'), 'hush')
})
