import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Change } from '../../../db/changes/log.ts'
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
