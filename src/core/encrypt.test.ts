import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { decrypt, encrypt } from './encrypt.ts'

test('what was encrypted comes back with the same key and context, and with no others', () => {
  const key = randomBytes(32)
  const stored = encrypt(key, 'hush · ünï', 'webhook 1')
  assert.equal(decrypt(key, stored, 'webhook 1'), 'hush · ünï')
  assert.notEqual(stored, encrypt(key, 'hush · ünï', 'webhook 1'))
  assert.throws(() => decrypt(randomBytes(32), stored, 'webhook 1'))
  assert.throws(() => decrypt(key, stored, 'webhook 2'))
  assert.throws(() => decrypt(key, `${stored.slice(0, -2)}AA`, 'webhook 1'))
  assert.throws(() => decrypt(key, 'v9.AAAA', 'webhook 1'))
  assert.throws(() => decrypt(key, 'v1.', 'webhook 1'))
})
