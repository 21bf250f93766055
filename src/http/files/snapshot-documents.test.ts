import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SnapshotDocuments } from './snapshot-documents.ts'

test('a long document is encoded and hashed between other work, once', async (t) => {
  let now = 0
  t.mock.method(performance, 'now', () => (now += 5))
  const documents = new SnapshotDocuments()
  const snapshot = { builtAt: new Date() }
  const pieces = Array.from({ length: 1_000 }, (_, i) => `${i === 0 ? '[' : ','}"${'x'.repeat(100)}"`).concat(']')
  let turns = 0
  let isDone = false
  const count = (): void => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  let made = 0
  const make = async () => {
    made++
    return pieces
  }
  const reply = await documents.reply({}, snapshot, 'a', make)
  isDone = true
  assert.ok(turns >= 5, `${turns} turns of the event loop`)
  assert.equal(Buffer.concat(reply.json as Buffer[]).toString(), pieces.join(''))
  const again = await documents.reply({ 'if-none-match': reply.headers?.['ETag'] }, snapshot, 'a', make)
  assert.deepEqual([again.status, made], [304, 1])
})
