import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { oauthApplication } from '../fakes/oauth-application.ts'
import { type Answer, eventually, startServer } from '../kit/kit.ts'

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true } })
const app = await oauthApplication(api, (await api.signUp('operator@x.test')).user.id)
const other = await openConnection({ url: api.databaseUrl })
after(() => other.end())
const password = 'long enough password'
const login = (email: string) => api.call('POST /api/auth/login', { json: { email, password } })

/** What a call answers that was under way while another transaction changed the account. */
async function overtaken(userId: string, call: () => Promise<Answer>, change: string): Promise<Answer> {
  await other.query(`begin; select from svc.users where id = '${userId}' for no key update`)
  const answer = call()
  await eventually(async () => {
    const waiting = await api.sql(
      `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'svc.users'`,
    )
    assert.equal(waiting.length, 1)
  })
  await other.query(`${change}; commit`)
  return answer
}

test('a login is judged by the password and the factors of the moment its session opens', async () => {
  const { user } = await api.signUp('ana@x.test')
  const changed = await overtaken(
    user.id,
    () => login('ana@x.test'),
    `update svc.users set password_hash = 'another' where id = '${user.id}'`,
  )
  assert.equal(changed.status, 401)
  const { user: bo } = await api.signUp('bo@x.test')
  const enrolled = await overtaken(
    bo.id,
    () => login('bo@x.test'),
    `insert into svc.mfa_factors (id, user_id, method, confirmed_at) values (gen_random_uuid(), '${bo.id}', 'email', now())`,
  )
  assert.deepEqual([enrolled.status, enrolled.body.mfa_pending], [200, true])
})

test('what a session makes is not made when the session has ended meanwhile', async () => {
  const { user, token } = await api.signUp('cy@x.test')
  const calls = [
    () => api.call('POST /api/auth/api-keys', { as: token, json: { name: 'k' } }),
    () => app.approve(token),
    () => api.call('DELETE /api/auth/me', { as: token }),
  ]
  for (const call of calls) {
    const kept = (await api.sql('select * from svc.sessions where user_id = $1', [user.id]))[0]
    const { status } = await overtaken(user.id, call, `delete from svc.sessions where user_id = '${user.id}'`)
    assert.equal(status, 401)
    await api.sql('insert into svc.sessions select * from json_populate_record(null::svc.sessions, $1)', [
      JSON.stringify({ ...kept, amr: ['password'] }),
    ])
  }
  const made = await api.sql('select 1 from svc.api_keys union all select 1 from svc.oauth_codes')
  assert.equal(made.length, 0)
})

test('a refresh is judged by the grant and the client of the moment its tokens are made', async () => {
  const { user, token } = await api.signUp('dee@x.test')
  const { refresh } = await app.granted(token)
  const { status, body } = await overtaken(
    user.id,
    () => app.refresh(refresh),
    `update svc.oauth_clients set scopes = '{readonly}' where client_id = '${app.clientId}'`,
  )
  assert.deepEqual([status, body.error], [400, 'invalid_grant'])
})

test('a device whose user decides in the middle of a poll gets its tokens at the next one, which holds the account', async () => {
  const { token } = await api.signUp('eli@x.test')
  const form = { client_id: app.clientId, scope: 'readonly' }
  const { device_code, user_code } = (await api.call('POST /api/oauth/device_authorization', { form })).body
  const poll = () => app.token({ grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code })
  await other.query(`begin; select from svc.oauth_clients where client_id = '${app.clientId}' for update`)
  const early = poll()
  await eventually(async () => {
    const waiting = await api.sql(
      `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'svc.oauth_clients'`,
    )
    assert.equal(waiting.length, 1)
  })
  const json = { user_code, decision: 'approve' }
  assert.equal((await api.call('POST /api/oauth/device', { as: token, json })).status, 204)
  await other.query('commit')
  const { status, body } = await early
  assert.deepEqual([status, body.error], [400, 'authorization_pending'])
  assert.equal((await poll()).status, 200)
})
