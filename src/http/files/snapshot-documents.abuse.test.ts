import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SnapshotDocuments } from './snapshot-documents.ts'

test('documents are kept up to a bound of bytes, the latest used first', async () => {
  const documents = new SnapshotDocuments()
  const snapshot = { builtAt: new Date() }
  const made: string[] = []
  const read = (key: string) =>
    documents.reply({}, snapshot, key, async () => {
      made.push(key)
      return ['x'.repeat(5 * 2 ** 20)]
    })
  for (const key of ['a', 'b', 'c', 'a', 'b', 'c']) assert.equal((await read(key)).status, 200)
  assert.deepEqual(made.splice(0), ['a', 'b', 'c'])
  for (const key of ['d', 'c', 'b', 'a']) await read(key)
  assert.deepEqual(made, ['d', 'a'])
  await Promise.all([read('e'), read('e')])
  assert.deepEqual(made, ['d', 'a', 'e'])
})
