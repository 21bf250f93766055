import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cookies } from '../src/session.ts'
import type { Session } from '../src/session-store.ts'

const sessionOf = (token: string): Session => ({
  token,
  refreshToken: 'r',
  user: { id: 'u', email: 'ü@x.test', emailVerified: true, is_anonymous: false, createdAt: '', updatedAt: '' },
})

test('a session is cut into cookies, and a shorter one leaves nothing of a longer one', async () => {
  const jar = new Map<string, string>()
  const store = cookies({
    get: (name) => jar.get(name),
    set: (name, value) => void jar.set(name, value),
    remove: (name) => void jar.delete(name),
  })
  assert.equal(await store.load(), null)
  for (const length of [9_000, 10, 5_000]) {
    const session = sessionOf('ß'.repeat(length / 6))
    await store.save(session)
    assert.deepEqual(await store.load(), session)
    for (const value of jar.values()) assert.ok(value.length <= 3_500 && /^[\w%.!~*'()-]*$/.test(value))
  }
  assert.equal(jar.size, 2)
  jar.delete('savanna.1')
  assert.equal(await store.load(), null)
  await store.save(sessionOf('t'))
  await store.clear()
  assert.deepEqual([await store.load(), jar.size], [null, 0])
})
