import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'auth.totp_enabled': true } })
const other = await startServer({ on: api })
const off = {
  magic_link_enabled: false,
  email_mfa_enabled: false,
  anonymous_auth_enabled: false,
  totp_enabled: false,
  webauthn_enabled: false,
  sms_enabled: false,
}

test('the configuration holds until somebody changes a switch', async () => {
  const { status, body } = await api.call('GET /api/admin/auth-settings', { as: 'admin' })
  assert.deepEqual([status, body], [200, { ...off, totp_enabled: true }])
})

test('a change is live everywhere within a second, replaces all switches and is audited', async () => {
  const changed = await api.call('PATCH /api/admin/auth-settings', {
    as: 'admin',
    json: { anonymous_auth_enabled: true },
  })
  assert.deepEqual([changed.status, changed.body], [200, { ...off, anonymous_auth_enabled: true }])
  assert.equal((await api.call('POST /api/auth/anonymous')).status, 201)
  await eventually(async () => assert.equal((await other.call('POST /api/auth/anonymous')).status, 201))

  const put = await other.call('PUT /api/admin/auth-settings', { as: 'admin', json: { sms_enabled: true, unknown: 1 } })
  assert.deepEqual([put.status, put.body], [200, { ...off, sms_enabled: true }])
  assert.equal((await other.call('POST /api/auth/anonymous')).status, 404)
  await eventually(async () => assert.equal((await api.call('POST /api/auth/anonymous')).status, 404))

  const audit = await api.call('GET /api/admin/audit?action=auth_settings.update', { as: 'admin' })
  assert.equal(audit.status, 200)
  const [last, first] = audit.body.items
  assert.deepEqual(first.old_values, { ...off, totp_enabled: true })
  assert.deepEqual(first.new_values, { ...off, anonymous_auth_enabled: true })
  assert.deepEqual([last.old_values, last.new_values], [first.new_values, { ...off, sms_enabled: true }])
})

test('switches are booleans, and admins turn them', async () => {
  for (const value of ['true', 1, null, {}, []]) {
    const { status, body } = await api.call('PATCH /api/admin/auth-settings', {
      as: 'admin',
      json: { totp_enabled: value },
    })
    assert.deepEqual([status, body.message], [400, 'totp_enabled must be a boolean'])
  }
  assert.equal((await api.call('PATCH /api/admin/auth-settings', { as: 'admin', json: [] })).status, 400)
  for (const method of ['GET', 'PATCH', 'PUT'] as const) {
    const { status, body } = await api.call(`${method} /api/admin/auth-settings`)
    assert.deepEqual([status, body.message], [401, 'admin authentication required'])
  }
  assert.equal((await api.call('GET /api/admin/auth-settings', { as: 'admin' })).body.sms_enabled, true)
})

test('with auth off there are no accounts, and requests run without a user', async () => {
  const { token } = await api.signUp('before@x.test')
  const without = await startServer({ on: api, config: { 'auth.enabled': false } })
  for (const line of [
    'POST /api/auth/register',
    'POST /api/auth/login',
    'GET /api/auth/me',
    'DELETE /api/auth/me',
    'GET /api/auth/sessions',
    'POST /api/auth/refresh',
    'POST /api/auth/anonymous',
    'GET /api/auth/oauth/google',
    'GET /api/auth/api-keys',
    'POST /api/auth/mfa/totp/enroll',
    'GET /api/auth/nothing',
  ] as const) {
    const { status, body } = await without.call(line, { as: token })
    assert.deepEqual(
      [status, body],
      [404, { code: 404, error: 'feature_disabled', message: 'auth is not enabled' }],
      line,
    )
  }
  const users = await without.call('GET /api/admin/users', { as: 'admin' })
  assert.deepEqual([users.status, users.body.message], [404, 'auth is not enabled'])
  assert.equal((await without.call('GET /api/admin/auth-settings', { as: 'admin' })).status, 200)
  assert.equal((await without.call('GET /api/admin/auth-settings', { as: '0'.repeat(64) })).status, 401)
  await api.sql(`create function public.who() returns text language sql stable as $$ select current_user::text $$`)
  const asAnon = await eventually(async () => {
    const answer = await without.call('POST /api/rpc/who', { as: token, json: {} })
    assert.equal(answer.status, 200)
    return answer
  })
  assert.equal(asAnon.body, 'svc_anon')
})
