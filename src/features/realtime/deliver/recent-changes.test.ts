import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Change } from '../../../db/changes/log.ts'
import { RecentChanges } from './recent-changes.ts'

const change = (n: number, size = 1): Change => ({
  position: `1-${n}`,
  at: 0,
  action: 'create',
  shape: '1',
  oid: 1,
  schema: 'public',
  name: 't',
  pk: '{}',
  record: 'x'.repeat(size),
})
const positions = (changes: readonly Change[] | undefined) => changes?.map(({ position }) => position)

test('recent changes are found by position until they are too many or too large', () => {
  const recent = new RecentChanges()
  recent.restart('1-0')
  recent.add([change(1), change(2)])
  recent.add([change(3)])
  assert.deepEqual(positions(recent.after('1-0')), ['1-1', '1-2', '1-3'])
  assert.deepEqual(positions(recent.after('1-2')), ['1-3'])
  assert.deepEqual(positions(recent.after('1-3')), [])
  assert.equal(recent.after('1-9'), undefined)

  for (let n = 4; n < 5_000; n++) recent.add([change(n)])
  assert.equal(recent.after('1-3'), undefined)
  assert.equal(recent.after('1-4990')?.length, 9)
  recent.add([change(5_000, 8_000_000)])
  assert.equal(recent.after('1-4998'), undefined)
  assert.deepEqual(positions(recent.after('1-5000')), [])
  recent.restart('2-0')
  assert.equal(recent.has('1-5000'), false)
  assert.equal(recent.has('2-0'), true)
})
