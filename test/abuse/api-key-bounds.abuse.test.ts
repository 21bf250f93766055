import assert from 'node:assert/strict'
import { test } from 'node:test'
import { oauthApplication } from '../fakes/oauth-application.ts'
import { startServer } from '../kit/kit.ts'

const api = await startServer({ config: { 'auth.oauth_provider.enabled': true } })
const ana = await api.signUp('ana@x.test')
const names = (count: number, length = 8) => Array.from({ length: count }, (_, i) => `${i}`.padEnd(length, 't'))
const makeKey = (allowedTables: string[]) =>
  api.call('POST /api/auth/api-keys', { as: ana.token, json: { name: 'k', allowedTables } })

test('a key is limited to at most 100 tables of 128 characters, for users and for the operator', async () => {
  assert.equal((await makeKey(names(100, 128))).status, 201)
  for (const tables of [names(101), ['t'.repeat(129)]]) {
    const { status, body } = await makeKey(tables)
    assert.deepEqual([status, body.message], [400, 'allowedTables: at most 100 names of 128 characters'])
    const json = { userId: ana.user.id, name: 'k', allowedTables: tables }
    assert.equal((await api.call('POST /api/admin/api-keys', { as: 'admin', json })).status, 400)
  }
})

test('so is an OAuth grant, with one refusal at authorize, consent and token', async () => {
  const app = await oauthApplication(api, ana.user.id, { clientType: 'confidential' })
  for (const tables of [names(101), ['t'.repeat(129)]]) {
    const form = { grant_type: 'client_credentials', scope: 'readonly', allowed_tables: tables.join(',') }
    const answers = [
      await app.authorize(ana.token, { allowed_tables: tables.join(',') }),
      await app.approve(ana.token, { allowed_tables: tables }),
      await api.call('POST /api/auth/token', { form: { client_id: app.clientId, client_secret: app.secret, ...form } }),
    ]
    for (const { status, body } of answers) {
      assert.deepEqual([status, body.error], [400, 'invalid_request'], JSON.stringify(body))
      assert.equal(body.error_description, 'allowed_tables: at most 100 names of 128 characters')
    }
  }
})

test('a user has at most 100 keys, also when they are made at once; of revoked ones the latest 100 stay', async () => {
  const bo = await api.signUp('bo@x.test')
  await api.sql(
    `insert into svc.api_keys (user_id, name, key_hash, key_prefix, scope, revoked_at)
     select $1, 'k', md5(random()::text), 'svc_', '*', case when n > 95 then now() - n * interval '1 second' end
     from generate_series(1, 300) n`,
    [bo.user.id],
  )
  const made = await Promise.all(
    Array.from({ length: 10 }, () => api.call('POST /api/auth/api-keys', { as: bo.token, json: { name: 'k' } })),
  )
  assert.deepEqual(made.map(({ status }) => status).sort(), [...Array(5).fill(201), ...Array(5).fill(409)])
  assert.equal(made.find(({ status }) => status === 409)?.body.error, 'limit_reached')
  const listed = (await api.call('GET /api/auth/api-keys', { as: bo.token })).body as { revokedAt: string | null }[]
  assert.equal(listed.filter(({ revokedAt }) => revokedAt === null).length, 100)
  assert.equal(listed.filter(({ revokedAt }) => revokedAt !== null).length, 100)
})
