import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Outbox } from './outbox.ts'

/** Type, content without its length, for each message. */
function messagesIn(bytes: Buffer): [type: string, content: Buffer][] {
  const found: [string, Buffer][] = []
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readInt32BE(at + 1)
    found.push([String.fromCharCode(bytes[at] ?? 0), bytes.subarray(at + 5, at + 1 + length)])
    at += 1 + length
  }
  return found
}

test('values of any length and script arrive as they are', () => {
  const outbox = new Outbox()
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 40 }),
    fc.constant('é'.repeat(30_000)),
    fc.constant(''),
  )
  fc.assert(
    fc.property(fc.array(fc.option(text), { maxLength: 6 }), (values) => {
      outbox.bind('s1', values)
      outbox.sync()
      const [bind, sync, ...more] = messagesIn(outbox.take())
      assert.deepEqual(more, [])
      assert.equal(sync?.[0], 'S')
      const content = bind?.[1] ?? Buffer.alloc(0)
      assert.deepEqual([bind?.[0], content.subarray(0, 4).toString()], ['B', '\0s1\0'])
      let at = 8 // no formats, so many values
      const read = values.map(() => {
        const length = content.readInt32BE(at)
        at += 4 + Math.max(0, length)
        return length < 0 ? null : content.toString('utf8', at - length, at)
      })
      assert.deepEqual([content.readInt16BE(6), read, at + 2], [values.length, values, content.length])
    }),
  )
})

test('each kind of message is what the protocol wants', () => {
  const outbox = new Outbox()
  outbox.close('s7')
  outbox.parse('s8', 'select $1')
  outbox.describe()
  outbox.execute()
  assert.deepEqual(
    messagesIn(outbox.take()).map(([type, content]) => [type, content.toString('latin1')]),
    [
      ['C', 'Ss7\0'],
      ['P', 's8\0select $1\0\0\0'],
      ['D', 'P\0'],
      ['E', '\0\0\0\0\0'],
    ],
  )
  assert.equal(outbox.take().length, 0)
})
