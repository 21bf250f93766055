import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const DECLARATION = /^export (?:abstract )?(?:async )?(?:class|function\*?|const|type|interface) ([\w$]+)/gm

test('an exported name means one thing in all of src', () => {
  const files = new Map<string, string[]>()
  for (const file of readdirSync('src', { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file.endsWith('.test.ts')) continue
    for (const [, name = ''] of readFileSync(join('src', file), 'utf8').matchAll(DECLARATION)) {
      files.set(name, [...(files.get(name) ?? []), file])
    }
  }
  const ambiguous = [...files].filter(([, places]) => places.length > 1)
  assert.deepEqual(Object.fromEntries(ambiguous), {})
})
