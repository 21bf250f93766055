import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mailbox } from '../fakes/mailbox.ts'
import { startServer } from '../kit/kit.ts'

const config = {
  'auth.magic_link_enabled': true,
  'auth.anonymous_auth_enabled': true,
  'rate_limit.register': '3/min',
  'rate_limit.link': '3/min',
}
const api = await startServer({ config })

test('a bad bearer with a bad link is 401, with a good one it counts as none', async () => {
  await api.call('POST /api/auth/magic-link', { json: { email: 'ana@x.test' } })
  const link = await mailbox(api).token('ana@x.test')
  const confirm = (token: string, as?: string) =>
    api.call('POST /api/auth/magic-link/confirm', { json: { token }, ...(as && { as }) })
  const refused = await confirm('no link', 'a.b.c')
  assert.deepEqual([refused.status, refused.body.message], [401, 'invalid or expired token'])
  assert.equal((await confirm('no link')).status, 400)
  assert.equal((await confirm(link, 'a.b.c')).status, 200)
})

test('links of anonymous accounts have a limit of their own, and use up no registrations', async () => {
  const { token } = (await api.call('POST /api/auth/anonymous')).body
  const link = () => api.call('POST /api/auth/link/oauth', { as: token, json: { provider: 'none', access_token: 'x' } })
  const statuses = [(await link()).status, (await link()).status, (await link()).status, (await link()).status]
  assert.deepEqual(statuses, [400, 400, 400, 429])
  const json = { email: 'after@x.test', password: 'long enough password' }
  for (const status of [201, 409, 409, 429])
    assert.equal((await api.call('POST /api/auth/register', { json })).status, status)
})

test('without the admin token the status tells nothing but whether there is an admin', async () => {
  await api.sql('create table open_to_all (id int primary key)')
  await api.call('GET /api/collections/open_to_all')
  const status = async (as?: string) => (await api.call('GET /api/admin/status', as ? { as } : {})).body
  const { token } = (await api.call('POST /api/auth/anonymous')).body
  for (const as of [undefined, token, 'a.b.c', 'f'.repeat(64)]) assert.deepEqual(await status(as), { auth: true })
  assert.match(JSON.stringify(await status('admin')), /open_to_all/)
})
