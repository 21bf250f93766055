import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createClientAddress } from './client-address.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')
const heapBytes = (): number => {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

test('addresses that are kept do not keep the long headers that they came in', () => {
  const clientOf = createClientAddress(['10.0.0.0/8'])
  const before = heapBytes()
  for (let i = 0; i < 1000; i++) {
    const address = `198.151.${100 + (i >> 8)}.${i & 255}`
    assert.equal(clientOf('10.0.0.1', `${Buffer.alloc(60_000, 'x').toString('latin1')}, ${address}`), address)
  }
  const kept = heapBytes() - before
  assert.ok(kept < 5_000_000, `${kept} bytes`)
  assert.equal(clientOf('10.0.0.1', '198.151.100.1'), '198.151.100.1')
})
