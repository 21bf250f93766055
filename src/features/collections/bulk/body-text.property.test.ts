import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import fc from 'fast-check'
import { bodyBytes, textOf } from './body-text.ts'

async function readInPieces(bytes: Buffer, cuts: readonly number[]): Promise<string> {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  const pieces = places.map((from, i) => bytes.subarray(from, places[i + 1] ?? from))
  const request = Object.assign(Readable.from(pieces), { headers: {}, complete: true }) as unknown as IncomingMessage
  let text = ''
  for await (const piece of textOf(bodyBytes(request, Number.POSITIVE_INFINITY))) text += piece
  return text
}
const cuts = fc.array(fc.nat())

test('a text is the same in whatever pieces its bytes arrive', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary' }), cuts, async (text, places) => {
      assert.equal(await readInPieces(Buffer.from(text), places), text)
    }),
  )
})

test('bytes that are no UTF-8 are refused in whatever pieces they arrive', async () => {
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
  await fc.assert(
    fc.asyncProperty(fc.array(byte), cuts, async (list, places) => {
      const bytes = Buffer.from(list)
      let text: string | undefined
      try {
        text = strict.decode(bytes)
      } catch {
        // Not UTF-8.
      }
      if (text === undefined)
        await assert.rejects(readInPieces(bytes, places), { message: 'request body must be UTF-8' })
      else assert.equal(await readInPieces(bytes, places), text)
    }),
    { numRuns: 2_000 },
  )
})
