import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '../../../core/identity.ts'
import { grantOf } from '../../../core/scope.ts'
import { interestOf } from './interest.ts'
import { EVERYTHING } from './wanted.ts'

const USER: Extract<Identity, { kind: 'user' }> = {
  ...{ kind: 'user', id: 'ana', email: 'ana@x.test', aal: 'aal1', amr: ['pwd'], sessionId: 's1' },
  ...{ isAnonymous: false, expiresAt: 1 },
}
const KEY: Extract<Identity, { kind: 'key' }> = {
  ...{ kind: 'key', via: 'api_key', keyId: 'k1', userId: 'ana', email: 'ana@x.test', expiresAt: null },
  grant: grantOf('readonly', ['notes'], null),
}
const key = (who: Identity): string => interestOf(who, EVERYTHING).key

test('callers share what was judged for one of them only if they are alike in all that can be judged', () => {
  const all = [
    USER,
    { ...USER, aal: 'aal2' as const },
    { ...USER, email: 'other@x.test' },
    { ...USER, isAnonymous: true },
    // What an identity may carry one day counts from then on.
    { ...USER, claims: '{"org":1}' },
    { ...USER, claims: '{"org":2}' },
    KEY,
    { ...KEY, grant: { ...KEY.grant, scope: 'readwrite' as const } },
    { ...KEY, grant: { ...KEY.grant, tables: ['other'] } },
    { ...KEY, via: 'oauth' as const },
  ]
  assert.equal(new Set(all.map(key)).size, all.length)
  // Another session or key of the same caller with the same rights is the same caller.
  assert.equal(key({ ...USER, sessionId: 's2', expiresAt: 2 }), key(USER))
  assert.equal(key({ ...KEY, keyId: 'k2' }), key(KEY))
})
