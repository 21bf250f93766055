import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Utf8 } from './utf8.ts'

function readInPieces(bytes: Buffer, cuts: readonly number[]): string {
  const decoder = new Utf8()
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  let text = ''
  for (const [i, from] of places.entries()) text += decoder.read(bytes.subarray(from, places[i + 1] ?? from))
  decoder.end()
  return text
}
const cuts = fc.array(fc.nat())

test('a text is the same in whatever pieces its bytes arrive', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), cuts, (text, places) => {
      assert.equal(readInPieces(Buffer.from(text), places), text)
    }),
  )
})

test('bytes that are no UTF-8 are refused in whatever pieces they arrive', () => {
  const byte = fc.constantFrom(
    0x41,
    0x80,
    0xbf,
    0xc0,
    0xc3,
    0xa9,
    0xe2,
    0x82,
    0xac,
    0xed,
    0xa0,
    0xf0,
    0x9f,
    0x98,
    0xf4,
    0x90,
    0xff,
  )
  const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  fc.assert(
    fc.property(fc.array(byte), cuts, (list, places) => {
      const bytes = Buffer.from(list)
      let text: string | undefined
      try {
        text = strict.decode(bytes)
      } catch {
        // Not UTF-8.
      }
      if (text === undefined)
        assert.throws(() => readInPieces(bytes, places), { message: 'request body must be UTF-8' })
      else assert.equal(readInPieces(bytes, places), text)
    }),
    { numRuns: 2_000 },
  )
})
