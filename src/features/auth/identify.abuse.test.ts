import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testKeys } from '../../../test/kit/token-keys.ts'
import type { Db } from '../../db/db.ts'
import { createIdentify } from './identify.ts'

test('what is remembered of bearers is bounded in bytes: large grants make room for others', async () => {
  let lookups = 0
  const tables = Array.from({ length: 1000 }, (_, i) => `${i}`.padEnd(1000, 't'))
  const keys = testKeys()
  const identify = createIdentify({
    db: {} as Db,
    authEnabled: true,
    keys: () => keys,
    revocations: {
      clock: { now: () => 0 },
      isFresh: () => true,
      generation: () => 0,
      onRevoked: () => {},
      refresh: async () => {},
    },
    resolveApiKey: async (keyId) => {
      lookups++
      const grant = { scope: '*', tables, files: { read: true, write: true }, appId: null } as const
      return { kind: 'key', via: 'api_key', keyId, userId: 'u', email: '', grant, expiresAt: null }
    },
  })
  const bearers = Array.from({ length: 20 }, (_, i) => `svc_${String(i).padStart(48, '0')}`)
  for (const bearer of bearers) await identify(bearer)
  await identify(bearers.at(-1) ?? '')
  assert.equal(lookups, 20, 'the latest is remembered')
  await identify(bearers[0] ?? '')
  assert.equal(lookups, 21, '40 MB are not')
})
