import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authenticator } from '../../../test/fakes/authenticator.ts'
import { startServer, type TestServer } from '../../../test/kit/kit.ts'

const PASSWORD = 'a password of their own'
const api = await startServer()

const add = async (name: string, role = 'owner'): Promise<string> => {
  const json = { email: `${name}@x.test`, password: PASSWORD, role }
  return (await api.call('POST /api/admin/admins', { as: 'admin', json })).body.id
}
const login = (name: string, code?: string, on: TestServer = api) =>
  on.call('POST /api/admin/auth', { json: { email: `${name}@x.test`, password: PASSWORD, ...(code && { code }) } })
const tokenOf = async (name: string, code?: string): Promise<string> => (await login(name, code)).body.token
const confirm = (as: string, code: string, on: TestServer = api) =>
  on.call('POST /api/admin/mfa/totp/enroll/confirm', { as, json: { code } })
const enroll = async (as: string, on: TestServer = api) => {
  const { status, body, text } = await on.call('POST /api/admin/mfa/totp/enroll', { as })
  assert.equal(status, 200, text)
  return authenticator(body.uri)
}
const stats = async (as: string, on: TestServer = api) => {
  const { status, body } = await on.call('GET /api/admin/stats', { as })
  return status === 200 ? 200 : [status, body.error]
}

test('with an authenticator app a sign-in needs a code, which counts once; tokens from before end', async () => {
  await add('ada')
  const [token, other] = [await tokenOf('ada'), await tokenOf('ada')]
  assert.equal((await confirm(token, '000000')).body.error, 'enrolment_not_found')
  const app = await enroll(token)
  await app.steady()
  assert.equal((await login('ada')).status, 200, 'not in force before it is confirmed')
  assert.equal((await confirm(token, app.wrongCode())).body.error, 'invalid_code')
  assert.equal((await confirm(token, app.code(-1))).status, 204)
  assert.equal(await stats(token), 200)
  assert.deepEqual(await stats(other), [401, 'admin_required'])

  assert.deepEqual((await login('ada')).body, { code: 401, error: 'mfa_required', message: 'a code is required' })
  assert.equal((await login('ada', app.wrongCode())).body.error, 'invalid_code')
  assert.equal((await login('ada', app.code(-1))).body.error, 'invalid_code', 'a code is spent')
  assert.equal((await login('ada', app.code())).status, 200)
  assert.equal((await api.call('POST /api/admin/mfa/totp/enroll', { as: token })).body.error, 'already_enrolled')
  const stored = JSON.stringify(await api.sql('select * from svc.admins'))
  assert.match(stored, /totp_secret/)
  const { items } = (await api.call('GET /api/admin/admins', { as: 'admin' })).body
  assert.equal(items.find(({ email }: { email: string }) => email === 'ada@x.test').mfa, true)
})

test('a code may stand in groups, and one that was used is refused without being counted', async () => {
  await add('flo', 'viewer')
  const token = await tokenOf('flo')
  const app = await enroll(token)
  await app.steady()
  const grouped = (code: string): string => ` ${code.slice(0, 3)} ${code.slice(3)}\n`
  assert.equal((await confirm(token, grouped(app.code(-1)))).status, 204)
  const code = app.code()
  assert.equal((await login('flo', grouped(code))).status, 200)
  for (let i = 0; i < 6; i++) {
    const { status, body } = await login('flo', code)
    assert.deepEqual([status, body.error, body.message], [401, 'invalid_code', 'TOTP code already used'])
  }
  assert.equal((await login('flo', app.code(1))).status, 200)
})

test('five wrong codes lock the codes of that administrator', async () => {
  const id = await add('eve', 'viewer')
  const token = await tokenOf('eve')
  const app = await enroll(token)
  assert.equal((await confirm(token, app.code(-1))).status, 204)
  for (let i = 0; i < 5; i++) assert.equal((await login('eve', app.wrongCode())).body.error, 'invalid_code')
  const locked = await login('eve', app.code())
  assert.deepEqual([locked.status, locked.body.error], [429, 'too_many_attempts'])
  assert.ok(Number(locked.headers.get('retry-after')) > 800)

  const removed = await api.call(`PATCH /api/admin/admins/${id}`, { as: 'admin', json: { mfa: false } })
  assert.deepEqual([removed.status, removed.body.mfa], [200, false])
  assert.deepEqual(await stats(token), [401, 'admin_required'])
  assert.equal((await login('eve')).status, 200)
})

test('what opens secrets needs a second factor of the last ten minutes from those who have one', async () => {
  await add('kim')
  const token = await tokenOf('kim')
  const { user } = await api.signUp('person@x.test')
  const take = async (as: string) => (await api.call(`GET /api/admin/users/${user.id}/export`, { as })).body.error
  assert.equal(await take(token), undefined, 'none is enrolled')
  const app = await enroll(token)
  await app.steady()
  assert.equal((await confirm(token, app.code(-1))).status, 204)
  assert.equal(await take(token), undefined)
  await api.sql(`update svc.admin_tokens t set second_factor_at = now() - interval '11 minutes'
    from svc.admins a where a.id = t.admin_id and a.email = 'kim@x.test'`)
  const later = await startServer({ on: api })
  const answer = await later.call(`GET /api/admin/users/${user.id}/export`, { as: token })
  assert.deepEqual([answer.status, answer.body.error], [403, 'insufficient_aal'])
  assert.equal(await stats(token, later), 200)
  assert.equal(await take(await tokenOf('kim', app.code())), undefined)
  await later.stop()
  const fresh = api.app.routes.filter(({ freshFactor }) => freshFactor).map(({ method, path }) => `${method} ${path}`)
  assert.deepEqual(fresh.toSorted(), [
    'DELETE /api/admin/backups/{id}',
    'DELETE /api/admin/mfa/passkey/credentials/{credential_id}',
    'GET /api/admin/backups/{id}/download',
    'GET /api/admin/users/{id}/export',
    'POST /api/admin/mfa/passkey/enroll',
    'POST /api/admin/mfa/passkey/enroll/confirm',
    'POST /api/admin/mfa/totp/enroll',
    'POST /api/admin/oauth/clients/{clientId}/rotate-secret',
    'POST /api/admin/secrets/rotate',
    'POST /api/admin/secrets/signing-key',
  ])
})

test('the shared password has no second factor', async () => {
  assert.equal((await api.call('POST /api/admin/mfa/totp/enroll', { as: 'admin' })).status, 400)
})

test('where a second factor is required, nothing opens without one but its enrolment, and the shared password nothing', async () => {
  await add('mia', 'operator')
  const shared = await api.adminToken()
  const strict = await startServer({ on: api, config: { 'admin.require_mfa': true } })
  assert.deepEqual(await stats(shared, strict), [401, 'admin_required'])
  const { status } = await strict.call('POST /api/admin/auth', { json: { password: 'correct horse battery staple' } })
  assert.equal(status, 401)
  assert.equal(await stats((await strict.app.issueAdminToken()) ?? '', strict), 200, 'the tool on the machine')

  const { token } = (await login('mia', undefined, strict)).body
  assert.deepEqual(await stats(token, strict), [401, 'mfa_required'])
  const app = await enroll(token, strict)
  assert.equal((await confirm(token, app.code(), strict)).status, 204)
  assert.equal(await stats(token, strict), 200)
  await strict.stop()
})
