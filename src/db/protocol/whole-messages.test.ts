import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ReceiveBuffers, wholeMessages } from './whole-messages.ts'

const ANY = { receiving: new ReceiveBuffers(), refuse: assert.fail, mayHold: () => true }

const messageOf = (content: Uint8Array): Buffer => {
  const header = Buffer.alloc(5, 'D')
  header.writeUInt32BE(content.length + 4, 1)
  return Buffer.concat([header, content])
}

test('however the bytes are cut up, whole messages arrive, in order and unchanged', () => {
  const contents = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 8 })
  fc.assert(
    fc.property(contents, fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }), (all, cuts) => {
      const messages = all.map(messageOf)
      const bytes = Buffer.concat(messages)
      const fed: Buffer[] = []
      const { take } = wholeMessages({ ...ANY, feed: (whole) => fed.push(whole) })
      for (let at = 0, i = 0; at < bytes.length; i++) {
        const length = cuts[i % cuts.length] ?? 1
        take(bytes.subarray(at, at + length))
        at += length
      }
      assert.deepEqual(Buffer.concat(fed), bytes)
      const ends = new Set(messages.map((_, i) => Buffer.concat(messages.slice(0, i + 1)).length))
      let end = 0
      for (const part of fed) {
        end += part.length
        assert.ok(ends.has(end), 'a part ends within a message')
      }
    }),
  )
})

test('a length that cannot be is refused before memory is set aside for it', () => {
  const refusals: string[] = []
  const { take } = wholeMessages({ ...ANY, feed: () => assert.fail(), refuse: (reason) => refusals.push(reason) })
  take(Buffer.from([0x44, 0xff, 0xff, 0xff, 0xff, 0]))
  assert.deepEqual(refusals, ['PostgreSQL sent a message without a sensible length'])
})

test('a message that may not be held is read and thrown away, and the next ones arrive', () => {
  const [small, large] = [messageOf(Buffer.from('small')), messageOf(Buffer.alloc(1000))]
  const bytes = Buffer.concat([small, large, small])
  for (const length of [1, 7, 300, 999]) {
    const fed: Buffer[] = []
    const asked: number[] = []
    const { take } = wholeMessages({
      ...ANY,
      feed: (whole) => fed.push(Buffer.from(whole)),
      mayHold: (size) => {
        asked.push(size)
        return size < 100
      },
    })
    for (let at = 0; at < bytes.length; at += length) take(bytes.subarray(at, at + length))
    assert.deepEqual(Buffer.concat(fed), Buffer.concat([small, small]))
    assert.equal(asked.filter((size) => size > 100).length, 1)
  }
})
