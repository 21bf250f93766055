import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'auth.anonymous_auth_enabled': true, 'auth.anonymous_retention_days': 7 } })

test('cleanups remove what is over and nothing else', async () => {
  const kept = await api.signUp('kept@x.test')
  const old = (await api.call('POST /api/auth/anonymous')).body
  const used = (await api.call('POST /api/auth/anonymous')).body
  const young = (await api.call('POST /api/auth/anonymous')).body
  await api.sql(`update svc.users set created_at = now() - interval '8 days' where id in ($1, $2)`, [
    old.user.id,
    used.user.id,
  ])
  await api.sql(`update svc.sessions set expires_at = now() - interval '1 day' where user_id = $1`, [old.user.id])
  await api.sql(`update svc.mail_tokens set expires_at = now() - interval '1 day'`)

  const { cleanups } = api.app
  assert.equal(await cleanups['anonymous_account_cleanup']?.(), 1)
  assert.deepEqual(await api.sql('select 1 from svc.users where id = $1', [old.user.id]), [])
  await api.sql(`update svc.sessions set expires_at = now() - interval '1 day' where user_id = $1`, [young.user.id])
  assert.equal(await cleanups['stale_session_cleanup']?.(), 1)
  // A server sweeps these by itself soon after its start, so either of them may have removed the token.
  await cleanups['expired_auth_cleanup']?.()
  assert.deepEqual(await api.sql('select from svc.mail_tokens where expires_at < now()'), [])
  for (const { token } of [kept, used]) assert.equal((await api.call('GET /api/auth/me', { as: token })).status, 200)
})

test('an anonymous account with an identity elsewhere or a live key is not abandoned', async () => {
  const accounts = []
  for (const _ of [1, 2, 3]) accounts.push((await api.call('POST /api/auth/anonymous')).body)
  const ids = accounts.map(({ user }) => user.id)
  const key = { userId: ids[1], name: 'k' }
  assert.equal((await api.call('POST /api/admin/api-keys', { as: 'admin', json: key })).status, 201)
  const gone = { userId: ids[2], name: 'gone' }
  const { id } = (await api.call('POST /api/admin/api-keys', { as: 'admin', json: gone })).body.apiKey
  assert.equal((await api.call(`DELETE /api/admin/api-keys/${id}`, { as: 'admin' })).status, 204)
  await api.sql(`insert into svc.identities (provider, subject, user_id) values ('https://x.test', 'a', $1)`, [ids[0]])
  await api.sql(`update svc.users set created_at = now() - interval '8 days' where id = any($1)`, [ids])
  await api.sql(`update svc.sessions set expires_at = now() - interval '1 day' where user_id = any($1)`, [ids])
  assert.equal(await api.app.cleanups['anonymous_account_cleanup']?.(), 1)
  const left = await api.sql('select id from svc.users where id = any($1)', [ids])
  assert.deepEqual(left.map((row) => row.id).sort(), ids.slice(0, 2).sort())
})

test('a cleanup that somebody queues is run once, by whichever server', async () => {
  const old = (await api.call('POST /api/auth/anonymous')).body
  await api.sql(`update svc.users set created_at = now() - interval '8 days' where id = $1`, [old.user.id])
  await api.sql(`update svc.sessions set expires_at = now() - interval '1 day' where user_id = $1`, [old.user.id])
  await api.sql(`insert into svc.jobs (type, max_attempts) values ('anonymous_account_cleanup', 1)`)
  await eventually(async () => {
    assert.deepEqual(await api.sql('select from svc.users where id = $1', [old.user.id]), [])
    const states = await api.sql(`select state from svc.jobs where type = 'anonymous_account_cleanup'`)
    assert.deepEqual(states, [{ state: 'completed' }])
  })
})
