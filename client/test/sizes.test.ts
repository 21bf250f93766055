import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ENTRIES, sizeOf } from './sizes.ts'

const sources = fileURLToPath(new URL('../src', import.meta.url))

/** Bytes. Sign-in with other services, passkeys and pages about an account have entries of their own beside `auth`. */
const LIMITS = {
  data: 4_500,
  'data, auth': 6_100,
  'data, auth, realtime': 9_000,
  live: 3_800,
  history: 400,
  channels: 2_000,
  'auth, all of it': 7_060,
  everything: 12_000,
  react: 2_000,
}

for (const [name, limit] of Object.entries(LIMITS)) {
  test(`${name}: at most ${limit} bytes, minified and gzipped`, async () => {
    const size = await sizeOf(ENTRIES[name as keyof typeof ENTRIES], sources)
    assert.ok(size <= limit, `${size}`)
  })
}

test('nothing is needed at run time, and nothing happens at import', () => {
  const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  assert.deepEqual([manifest.dependencies, manifest.sideEffects], [undefined, false])
})
