import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { errorCatalogue, generalErrors } from '../../src/core/errors.ts'

const text = readFileSync('docs/errors.md', 'utf8')
const documented = [...text.matchAll(/^\| `(\w+)` \| (\d{3}) \|/gm)].map(([, code, status]) => `${code} ${status}`)

test('docs/errors.md and the catalogue list the same codes', () => {
  const answered = Object.entries(errorCatalogue).map(([code, status]) => `${code} ${status}`)
  assert.deepEqual(documented.toSorted(), answered.toSorted())
})

test('every code that says more than its status is answered somewhere', () => {
  const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !/\.test\.ts$|core.errors\.ts$/.test(file),
  )
  const code = sources.map((file) => readFileSync(join('src', file), 'utf8')).join('\n')
  const unused = Object.keys(errorCatalogue).filter(
    (name) => !Object.hasOwn(generalErrors, name) && !new RegExp(`['"\`]${name}['"\`]`).test(code),
  )
  assert.deepEqual(unused, [])
})
