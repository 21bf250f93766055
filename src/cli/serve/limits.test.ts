import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfig } from '../../config/config.ts'
import { limitsOf } from './limits.ts'

const granted = {
  'database.max_conns': 20,
  'database.min_conns': 4,
  'auth.hash_concurrency': 8,
  'jobs.worker_concurrency': 9,
}
const shared = (workers: number) => {
  const { database, auth, jobs } = limitsOf(loadConfig({ overrides: granted }).config, workers)
  return [database.max_conns, database.min_conns, auth.hash_concurrency, jobs.worker_concurrency]
}

test('what is granted to the server is divided among its workers, and each gets enough to work', () => {
  assert.deepEqual(shared(1), [20, 4, 8, 9])
  assert.deepEqual(shared(4), [5, 1, 2, 2])
  assert.deepEqual(shared(100), [2, 1, 1, 1])
})
