import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runInNewContext } from 'node:vm'
import jsQr from 'jsqr'
import { qrScript } from './qr-script.ts'

const encode = runInNewContext(`${qrScript}; qrModules`, { TextEncoder }) as (text: string) => boolean[][] | undefined

/** As a camera would see it: white margin, four pixels a module. */
function scan(modules: readonly boolean[][]): string | undefined {
  const [scale, quiet] = [4, 4]
  const size = (modules.length + 2 * quiet) * scale
  const pixels = new Uint8ClampedArray(size * size * 4).fill(255)
  for (const [y, row] of modules.entries()) {
    for (const [x, dark] of row.entries()) {
      if (!dark) continue
      for (let i = 0; i < scale * scale; i++) {
        const [px, py] = [(x + quiet) * scale + (i % scale), (y + quiet) * scale + Math.floor(i / scale)]
        pixels.fill(0, (py * size + px) * 4, (py * size + px) * 4 + 3)
      }
    }
  }
  return jsQr.default(pixels, size, size)?.data
}

test('a code of every version is read by another reader', () => {
  const seen = new Set<number>()
  for (let length = 1; length < 858; length += 7) {
    const text = `otpauth://totp/é:${'a1%@'.repeat(300)}`.slice(0, length)
    const modules = encode(text)
    assert.ok(modules, `${length}`)
    seen.add((modules.length - 17) / 4)
    assert.equal(scan(modules), text, `${length}`)
  }
  assert.equal(seen.size, 20)
})

test('a text that is too long has no code', () => {
  assert.ok(encode('x'.repeat(858)))
  assert.equal(encode('x'.repeat(859)), undefined)
})
