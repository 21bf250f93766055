import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit.ts'
import { SYSTEM } from '../../core/identity.ts'
import { openDatabase } from '../../db/database.ts'
import { sql } from '../../db/sql.ts'
import { loadRootSecret, signingKeys } from './secrets.ts'
import { endAllOf } from './session-sql.ts'
import { createSessions } from './sessions.ts'
import { startWatch } from './watch.ts'

const api = await startServer()
const observe = () => {}
const device = { userAgent: 'test', ip: '127.0.0.1' }

test('a first factor of a user with a second one opens no session', async () => {
  const { user } = await api.signUp('m@x.test')
  const { pool: db } = await openDatabase({
    url: api.databaseUrl,
    config: { max_conns: 4, min_conns: 1, acquire_timeout: 5, prepared_statements: true, direct_url: '' },
    api: { schemas: ['public'], statement_timeout: 30 },
    observe,
    progress: observe,
  })
  const watch = await startWatch({ db, observe })
  const root = await loadRootSecret(db, '')
  const sessions = createSessions({
    db,
    watch,
    keys: () => signingKeys(root, watch.salt()),
    config: { token_duration: 900, refresh_token_duration: 3600, refresh_grace_seconds: 0 },
    hasSecondFactor: (id) => sql`${id} = ${user.id}::uuid`,
  })
  const signIn = sessions.signIn(user.id, ['password'], device)
  const pending = signIn.finish(await db.fly(SYSTEM, signIn.statement))
  assert.ok(pending && 'mfa_pending' in pending)
  assert.deepEqual(Object.keys(pending), ['mfa_pending', 'mfa_token'])
  const claims = JSON.parse(Buffer.from(pending.mfa_token.split('.')[1] ?? '', 'base64url').toString())
  assert.deepEqual(
    [claims.mfa_pending, claims.amr, claims.sid, claims.exp - claims.iat],
    [true, ['password'], undefined, 300],
  )
  assert.equal((await api.sql('select 1 from svc.sessions where user_id = $1', [user.id])).length, 1)

  for (const line of [
    'GET /api/auth/me',
    'GET /api/auth/sessions',
    'DELETE /api/auth/me',
    'GET /api/auth/api-keys',
  ] as const) {
    const { status, body } = await api.call(line, { as: pending.mfa_token })
    assert.deepEqual([status, body.message], [401, 'MFA verification required'], line)
  }
  assert.equal((await api.call('POST /api/auth/refresh', { json: { refreshToken: pending.mfa_token } })).status, 401)
  assert.equal((await api.call('GET /api/admin/users', { as: pending.mfa_token })).status, 401)

  const both = sessions.signIn(user.id, ['password', 'totp'], device)
  const full = both.finish(await db.fly(SYSTEM, both.statement))
  assert.ok(full && 'token' in full)
  const { aal, amr } = JSON.parse(Buffer.from(full.token.split('.')[1] ?? '', 'base64url').toString())
  assert.deepEqual([aal, amr], ['aal2', ['password', 'totp']])
  const next = await sessions.refresh(full.refreshToken, device)
  assert.ok('token' in next)
  assert.equal(JSON.parse(Buffer.from(next.token.split('.')[1] ?? '', 'base64url').toString()).aal, 'aal2')

  await db.run(SYSTEM, endAllOf(user.id))
  const dead = await api.call('GET /api/auth/me', { as: pending.mfa_token })
  assert.deepEqual([dead.status, dead.body.message], [401, 'invalid or expired token'])
  await watch.close()
  await db.close()
})
