import assert from 'node:assert/strict'
import cluster from 'node:cluster'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { loadConfig } from '../../config/config.ts'
import { Cluster } from './cluster.ts'
import { limitsOf, requireConnections } from './limits.ts'

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

test('more workers than the embedded PostgreSQL has connections for are refused before any of them starts', async () => {
  const { config } = loadConfig({
    overrides: { data_dir: mkdtempSync(join(tmpdir(), 'svc-workers-')), 'server.workers': 64, 'server.port': 0 },
  })
  const forks: unknown[] = []
  cluster.on('fork', (worker) => forks.push(worker))
  await assert.rejects(Cluster.start(config, { argv: [], observe: () => {}, progress: () => {} }), {
    message: 'server.workers is 64, but the embedded PostgreSQL has 100 connections, enough for 32 workers',
  })
  assert.deepEqual(forks, [])
  rmSync(config.data_dir, { recursive: true, force: true })
  assert.doesNotThrow(() => requireConnections(32, 100))
})
