import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { listedKeys } from '../../config/config.ts'

const secrets = {
  'metrics.auth_token': 'hidden-metrics-token',
  'auth.encryption_key': '0123456789abcdef'.repeat(4),
  'email.smtp.password': 'hidden-smtp-password',
  'auth.oauth.acme.client_secret': 'hidden-client-secret',
  'backup.passphrase': 'hidden-passphrase',
}
const api = await startServer({
  config: { ...secrets, 'server.app_name': 'Shop', 'auth.oauth.acme.client_id': 'shop' },
})
type Setting = { key: string; value?: unknown; is_set: boolean; source: string; changeable?: boolean }
const settings = async () => {
  const { status, body, text } = await api.call('GET /api/admin/config', { as: 'admin' })
  assert.equal(status, 200)
  return { text, of: new Map<string, Setting>(body.items.map((item: Setting) => [item.key, item])) }
}

test('the configuration in force, with where each value comes from', async () => {
  const { of } = await settings()
  assert.deepEqual([of.get('server.app_name')?.value, of.get('server.app_name')?.source], ['Shop', 'override'])
  assert.deepEqual([of.get('log.buffer_size')?.value, of.get('log.buffer_size')?.source], [1000, 'default'])
  const fixed = listedKeys().filter(({ key }) => !key.includes('<p>'))
  assert.deepEqual(
    fixed.filter(({ key }) => !of.has(key)),
    [],
  )
  assert.equal(of.get('auth.oauth.acme.client_id')?.is_set, true)
})

test('what may be a secret is only said to be set', async () => {
  const { of, text } = await settings()
  for (const [key, value] of Object.entries(secrets)) {
    assert.deepEqual([of.get(key)?.is_set, of.get(key)?.value], [true, undefined], key)
    assert.equal(text.includes(value), false, key)
  }
  assert.deepEqual([of.get('database.url')?.is_set, of.get('database.url')?.value], [true, undefined])
  assert.equal(text.includes(api.databaseUrl), false)
  const shown = [...of.values()].filter(
    ({ key, value }) => value !== undefined && /secret|password|token|key$/.test(key),
  )
  // Numbers, switches, files that hold keys, and what a hook of this name does when it fails.
  for (const { key, value } of shown) {
    assert.ok(typeof value !== 'string' || /_file$|^auth\.hooks\.token_claims_on_error$/.test(key), key)
  }
})

test('a switch that was changed at run time has its value from there', async () => {
  assert.equal((await settings()).of.get('auth.totp_enabled')?.changeable, true)
  await api.call('PATCH /api/admin/auth-settings', { as: 'admin', json: { totp_enabled: true } })
  const now = (await settings()).of.get('auth.totp_enabled')
  assert.deepEqual([now?.value, now?.source], [true, 'run time'])
  const json = { email: 'v@x.test', password: 'a password of their own', role: 'viewer' }
  await api.call('POST /api/admin/admins', { as: 'admin', json })
  const { token } = (await api.call('POST /api/admin/auth', { json })).body
  assert.equal((await api.call('GET /api/admin/config', { as: token })).status, 403)
  assert.equal((await api.call('GET /api/admin/config')).status, 401)
})
