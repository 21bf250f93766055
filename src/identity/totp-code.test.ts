import assert from 'node:assert/strict'
import { test } from 'node:test'
import { base32, codeOf, newSecret, otpauthUri, stepAt, timeStep } from './totp-code.ts'

const rfcSecret = Buffer.from('12345678901234567890')

test('codes are those of RFC 6238, appendix B', () => {
  // The RFC prints eight digits; six are their end.
  for (const [seconds, code] of [
    [59, '94287082'],
    [1111111109, '07081804'],
    [1111111111, '14050471'],
    [1234567890, '89005924'],
    [2000000000, '69279037'],
    [20000000000, '65353130'],
  ] as const) {
    assert.equal(codeOf(rfcSecret, stepAt(seconds)), code.slice(-6))
  }
})

test('codes are those of RFC 4226, appendix D', () => {
  const codes = ['755224', '287082', '359152', '969429', '338314', '254676', '287922', '162583', '399871', '520489']
  assert.deepEqual(
    codes.map((_, counter) => codeOf(rfcSecret, counter)),
    codes,
  )
})

test('a code is good one step before and after its own, and no further', () => {
  const code = codeOf(rfcSecret, 1000)
  for (const current of [999, 1000, 1001]) assert.equal(timeStep(rfcSecret, code, current), 1000)
  for (const current of [997, 998, 1002, 1003]) assert.equal(timeStep(rfcSecret, code, current), undefined)
  for (const wrong of ['', '1', `${code}0`, code.slice(1), '１２３４５６', 'abcdef']) {
    assert.equal(timeStep(rfcSecret, wrong, 1000), undefined)
  }
})

test('base32 is that of RFC 4648, section 10, without padding', () => {
  for (const [plain, text] of [
    ['', ''],
    ['f', 'MY'],
    ['fo', 'MZXQ'],
    ['foo', 'MZXW6'],
    ['foob', 'MZXW6YQ'],
    ['fooba', 'MZXW6YTB'],
    ['foobar', 'MZXW6YTBOI'],
  ] as const) {
    assert.equal(base32(Buffer.from(plain)), text)
  }
  assert.match(base32(newSecret()), /^[A-Z2-7]{32}$/)
})

test('the address for the QR code survives odd names', () => {
  const uri = new URL(otpauthUri('Café & Co', 'a+b@x.test', rfcSecret))
  assert.equal(decodeURIComponent(uri.pathname), '/Café & Co:a+b@x.test')
  assert.deepEqual(Object.fromEntries(uri.searchParams), {
    secret: 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ',
    issuer: 'Café & Co',
    algorithm: 'SHA1',
    digits: '6',
    period: '30',
  })
})
