import assert from 'node:assert/strict'
import { test } from 'node:test'
import { countDbWait, measure, Timing } from './timing.ts'

test('stages follow each other, and waits at the same time count once', () => {
  let now = 100
  const timing = new Timing(98, () => now)
  timing.mark('identify')
  const [first, second] = [timing.startDbWait(), timing.startDbWait()]
  now += 5
  first()
  now += 2
  second()
  timing.mark('handler')
  now += 1
  assert.equal(String(timing), 'identify;dur=2.000, handler;dur=7.000, db;dur=7.000, total;dur=10.000')
})

test('only what is done for a measured request counts', async () => {
  let now = 0
  const timing = new Timing(0, () => now)
  const passing = async (ms: number) => {
    await Promise.resolve()
    now += ms
  }
  await Promise.all([measure(timing, () => countDbWait(passing(3))), countDbWait(passing(0))])
  await countDbWait(passing(50))
  assert.match(String(timing), /^db;dur=3\.000/)
})
