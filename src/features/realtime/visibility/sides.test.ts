import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Change } from '../../../db/changes/log.ts'
import { RecentChanges } from '../deliver/recent-changes.ts'
import { formOf } from './sides.ts'

const sides = (text: string) => ({ now: text.includes('n'), old: text.includes('o') })

test('how a change is told follows from what the subscriber sees and asked for', () => {
  // action, seen, match → form
  const cases: [Change['action'], string, string, 'full' | 'key' | undefined][] = [
    ['create', 'n', 'n', 'full'],
    ['create', '', 'n', undefined],
    ['create', 'n', '', undefined],
    ['update', 'no', 'no', 'full'],
    ['update', 'no', 'n', 'full'],
    ['update', 'no', 'o', 'full'],
    ['update', 'no', '', undefined],
    ['update', 'n', 'n', 'full'],
    ['update', 'n', 'o', undefined], // would tell what an unseen row held
    ['update', 'o', 'no', 'key'],
    ['update', 'o', 'n', undefined],
    ['update', '', 'no', undefined],
    ['delete', 'o', 'o', 'key'],
    ['delete', 'o', '', undefined],
    ['delete', 'n', 'no', undefined],
  ]
  for (const [action, seen, match, form] of cases) {
    assert.equal(formOf(action, sides(seen), sides(match)), form, `${action} ${seen} ${match}`)
  }
})

const change = (n: number, size = 1): Change => ({
  position: `1-${n}`,
  at: 0,
  action: 'create',
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
