import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { errorReference } from '../../scripts/error-reference.js'
import { startServer } from '../../test/kit/kit.ts'
import { errorCatalogue } from '../core/errors.ts'

const api = await startServer({ config: { 'server.public_base_url': 'https://api.example.com' } })

test('doc_url of a failure leads to the paragraph of its code in the reference', async () => {
  for (const [path, error] of [
    ['/api/nothing', 'not_found'],
    ['/api/collections/nothing', 'collection_not_found'],
    ['/api/admin/stats', 'admin_required'],
  ]) {
    const body = (await (await fetch(api.url + path)).json()) as { error: string; doc_url: string }
    assert.deepEqual([body.error, body.doc_url], [error, `https://api.example.com/api/docs#${error}`])
  }
})

test('the reference has a paragraph for every code', async () => {
  const listed = errorReference(readFileSync('docs/errors.md', 'utf8'))
  assert.deepEqual(new Map(listed.map(({ error, status }) => [error, status])), new Map(Object.entries(errorCatalogue)))
  const page = await (await fetch(`${api.url}/api/docs`)).text()
  for (const { error } of listed) assert.ok(page.includes(error), error)
})
