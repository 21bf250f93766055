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
