import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { observations } from '../../src/core/observations.ts'

const text = readFileSync('docs/logs.md', 'utf8')
const documented = [...text.matchAll(/^\| `([^`]+)` \| (\w+) \|/gm)].map(([, message, level]) => `${level} ${message}`)

test('docs/logs.md and the catalogue list the same messages', () => {
  const observed = Object.entries(observations).map(([message, level]) => `${level} ${message}`)
  assert.deepEqual(documented.toSorted(), observed.toSorted())
})

test('every message is observed somewhere', () => {
  const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !/\.test\.ts$|core.observations\.ts$/.test(file),
  )
  const code = sources.map((file) => readFileSync(join('src', file), 'utf8')).join('\n')
  // Some are put together from a constant part and a word of the caller.
  const words = (message: string) => [message, message.replace(/^.+: | (?:failed|not removed)$/g, '')]
  const unused = Object.keys(observations).filter((message) => !words(message).some((one) => code.includes(`'${one}'`)))
  assert.deepEqual(unused, [])
})
