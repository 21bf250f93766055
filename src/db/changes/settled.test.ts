import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Db } from '../db.ts'
import type { Sql } from '../sql.ts'
import { Settled } from './settled.ts'

/** Nine changes, all committed; a durable reader has passed five. Another database of the cluster writes all the time. */
const database = ({ isOursAtWork, last = () => 9 }: { isOursAtWork: boolean; last?: () => number }): Db => {
  const asked: Partial<Db> = {
    fly: (async () => '5') as unknown as Db['fly'],
    rows: async <T extends object>(_who: unknown, statement: unknown) => {
      const isCareful = (statement as Sql).render().text.includes('pg_locks')
      return [{ last: `${last()}`, bound: '100', oldest: isCareful && !isOursAtWork ? '100' : '50' }] as T[]
    },
  }
  return asked as Db
}

test('the first look leaves out transactions of other databases', async () => {
  const settled = new Settled(database({ isOursAtWork: false }))
  await settled.look()
  assert.deepEqual([settled.hasReached(9n), settled.upTo], [true, '9'])
})

test('while nothing is known, what a durable reader has passed is settled', async () => {
  const settled = new Settled(database({ isOursAtWork: true }))
  await settled.look()
  assert.deepEqual([settled.hasReached(5n), settled.upTo], [false, '5'])
  settled.forget()
  assert.deepEqual([settled.hasReached(0n), settled.upTo], [false, '0'])
})

test('ids that went back, as after a restore in place, are looked at', async () => {
  let last = 9
  const settled = new Settled(database({ isOursAtWork: false, last: () => last }))
  await settled.look()
  last = 3
  while ((await settled.look()) !== undefined);
  assert.equal(settled.upTo, '3')
})
