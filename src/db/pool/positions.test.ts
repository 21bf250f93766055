import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ANONYMOUS, type Identity, SYSTEM } from '../../core/identity.ts'
import { endOfRecord, headerOf, lsnOf, lsnOfHeader, WrittenPositions } from './positions.ts'

const user = (id: string): Identity => ({
  ...{ kind: 'user', id, email: '', aal: 'aal1', amr: [], sessionId: id, isAnonymous: false, expiresAt: 0 },
})
const [ANN, BEN] = [user('ann'), user('ben')]

test('a position names its timeline; any other text is none', () => {
  const lsn = lsnOf('16/B374D848')
  assert.equal(lsn, 0x16b374d848n)
  assert.equal(headerOf(26, lsn), '0000001a-00000016b374d848')
  assert.equal(lsnOfHeader(headerOf(26, lsn), 26), lsn)
  assert.ok(headerOf(26, lsn) > headerOf(26, 0xffn) && headerOf(26, 1n) > headerOf(9, lsn), 'later ones sort later')
  assert.equal(lsnOfHeader('1a-16b374d848', 26), lsn)
  for (const bad of [undefined, '', '1-', '-1', '1a-16B374D848', '1a-16b374d848 ', `1a-${'f'.repeat(17)}`, '1-2-3']) {
    assert.equal(lsnOfHeader(bad, 26), undefined, bad)
  }
  assert.equal(lsnOfHeader('19-1', 26), undefined)
  assert.equal(lsnOfHeader('1b-1', 26), undefined)
})

test('the end of a record at the end of a page is not in the header of the next', () => {
  assert.equal(endOfRecord(8192n * 5n + 24n), 8192n * 5n)
  assert.equal(endOfRecord(8192n * 2048n + 40n), 8192n * 2048n)
  assert.equal(endOfRecord(8192n * 5n + 48n), 8192n * 5n + 48n)
  assert.equal(endOfRecord(8192n * 5n + 24n, 16_384n), 8192n * 5n + 24n)
})

test('writers need their own last write, everybody what visitors wrote, until it is replayed', () => {
  const written = new WrittenPositions()
  assert.ok(written.needOf(ANN) > 1n << 63n, 'nothing is known yet')
  written.sampled(100n, written.unknowns)
  assert.equal(written.needOf(ANN), 100n)
  written.wrote(ANN, 200n)
  assert.equal(written.needOf(ANN), 200n)
  assert.equal(written.needOf(BEN), 100n)
  assert.equal(written.needOf(ANONYMOUS), 100n)
  written.wrote(ANONYMOUS, 300n)
  assert.equal(written.needOf(BEN), 300n)
  written.wrote(SYSTEM, 400n)
  assert.equal(written.needOf(BEN), 300n, 'the work of the server concerns nobody yet')
  written.finished(BEN)
  assert.equal(written.needOf(BEN), 400n, 'what it did for a caller does')
  written.forget(250n)
  assert.equal(written.size, 1)
  written.forget(400n)
  assert.equal(written.size, 0)
})

test('a write whose position was lost keeps everybody on the primary until the next look', () => {
  const written = new WrittenPositions()
  written.sampled(100n, written.unknowns)
  const before = written.unknowns
  written.lost()
  assert.ok(written.isLost)
  written.sampled(150n, before)
  assert.ok(written.needOf(ANN) > 1n << 63n, 'that look began before')
  const between = written.unknowns
  written.lost()
  written.sampled(160n, between)
  assert.ok(written.needOf(ANN) > 1n << 63n, 'that look began before the second was lost')
  written.sampled(170n, written.unknowns)
  assert.equal(written.needOf(ANN), 170n)
  assert.ok(!written.isLost)
})
