import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testKeys } from '../../../test/kit/token-keys.ts'
import { AppError, unavailable } from '../../core/errors.ts'
import type { Identity } from '../../core/identity.ts'
import type { Db } from '../../db/db.ts'
import { createIdentify } from './identify.ts'
import { signJwt } from './jwt.ts'
import { endedBy, type Revocations } from './revocations.ts'

/** The database and the revocations, under the test's control. */
function setup() {
  const state = { queries: 0, down: false, fresh: true, now: 1_800_000_000_000, duringQuery: () => {} }
  const listeners: ((ends: (who: Identity) => boolean) => void)[] = []
  let generation = 0
  const row = { id: 'u1', email: 'a@x.test', is_anonymous: false, aal: 'aal1', amr: ['password'] }
  const db = {
    rows: async () => {
      state.queries++
      if (state.down) throw unavailable('database unavailable')
      state.duringQuery()
      return [row]
    },
  } as unknown as Db
  const revocations: Pick<Revocations, 'clock' | 'isFresh' | 'generation' | 'onRevoked' | 'apply' | 'refresh'> = {
    clock: { now: () => state.now },
    isFresh: () => state.fresh,
    generation: () => generation,
    onRevoked: (heard) => void listeners.push(heard),
    refresh: async () => {},
    apply: (batch) => {
      generation++
      for (const heard of listeners) heard(endedBy(batch))
    },
  }
  const keys = testKeys()
  const identify = createIdentify({ db, authEnabled: true, revocations, keys: () => keys })
  const token = (sid: string) => {
    const iat = state.now / 1000
    const claims = { sub: 'u1', iat, exp: iat + 900, jti: sid, email: '', sid, aal: 'aal1' as const, amr: ['password'] }
    return signJwt('access', { ...claims, is_anonymous: false, mfa_pending: false }, keys)
  }
  return { state, revocations, identify, token }
}

test('a known bearer costs no query', async () => {
  const { state, identify, token } = setup()
  const tokens = Array.from({ length: 100 }, (_, i) => token(`s${i}`))
  for (const bearer of tokens) await identify(bearer)
  assert.equal(state.queries, 100)
  for (const bearer of tokens) assert.ok(!(identify(bearer) instanceof Promise), 'answered at once')
  assert.equal(state.queries, 100)
})

test('a verdict ends with its token', async () => {
  const { state, identify, token } = setup()
  const bearer = token('s1')
  await identify(bearer)
  state.now += 899_000
  assert.equal(((await identify(bearer)) as { id: string }).id, 'u1')
  state.now += 1_000
  await assert.rejects(async () => identify(bearer), /invalid or expired token/)
  assert.equal(state.queries, 1)
})

test('a revocation drops the verdicts it concerns and no others', async () => {
  const { state, revocations, identify, token } = setup()
  const [one, two] = [token('s1'), token('s2')]
  await identify(one)
  await identify(two)
  revocations.apply([{ kind: 'session', subject: 's1' }])
  await identify(two)
  assert.equal(state.queries, 2)
  await identify(one)
  assert.equal(state.queries, 3)
})

test('a verdict that a revocation overtook is not kept', async () => {
  const { state, revocations, identify, token } = setup()
  state.duringQuery = () => revocations.apply([{ kind: 'session', subject: 's1' }])
  await identify(token('s1'))
  state.duringQuery = () => {}
  await identify(token('s1'))
  assert.equal(state.queries, 2)
})

test('while revocations cannot be read nothing cached is believed', async () => {
  const { state, identify, token } = setup()
  const bearer = token('s1')
  await identify(bearer)
  state.fresh = false
  await identify(bearer)
  assert.equal(state.queries, 2)
  state.down = true
  await assert.rejects(
    async () => identify(bearer),
    (error) => error instanceof AppError && error.status === 503,
  )
})

test('bad tokens cost no query', async () => {
  const { state, identify, token } = setup()
  for (const bearer of ['x', 'a.b.c', `${token('s1')}x`, 'svc_at_x', 'a'.repeat(20_000)]) {
    await assert.rejects(async () => identify(bearer), /invalid or expired token/)
  }
  assert.equal(state.queries, 0)
})
