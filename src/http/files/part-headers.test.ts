import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PartHeaders } from './part-headers.ts'

const LIMITS = { headerPairs: 2, headerSize: 60 }
const part = (headers: string, content: string) => `--B\r\n${headers}\r\n${content}\r\n`
const good = [
  `${part('A: 1\r\nB: 2\r\n', 'x'.repeat(100)) + part('', '\r\n\r\n'.repeat(20)) + part('A: 1\r\n', '')}--B--\r\n`,
  `preamble ${'x\r\n'.repeat(50)}\r\n${part('A: 1\r\nB: 2\r\n', 'x--B'.repeat(99))}--B--`,
  `${part('A: 1\r\n', '').slice(0, -2)}\r\n--B--`,
]
const bad = [
  `${part('A: 1\r\nB: 2\r\nC: 3\r\n', '')}--B--`,
  `${part('A: 1\r\n', 'x'.repeat(100)) + part(`A: ${'x'.repeat(60)}\r\n`, '')}--B--`,
]

test('headers are counted for each part, however the body is cut into chunks', () => {
  for (const [texts, expected] of [
    [good, true],
    [bad, false],
  ] as const) {
    for (const text of texts) {
      for (const size of [1, 2, 3, 7, 64, 10_000]) {
        const parts = new PartHeaders('B', LIMITS)
        const bytes = Buffer.from(text)
        let accepted = true
        for (let at = 0; at < bytes.length && accepted; at += size)
          accepted = parts.accepts(bytes.subarray(at, at + size))
        assert.equal(accepted, expected, JSON.stringify([size, text]))
      }
    }
  }
})
