import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { createRing } from '../../cli/log/ring.ts'

let api: InProcessServer
let viewer: string
before(async () => {
  api = await startServer()
  const [email, password] = ['vera@x.test', 'a password of their own']
  await api.call('POST /api/admin/admins', { as: 'admin', json: { email, password, role: 'viewer' } })
  viewer = (await api.call('POST /api/admin/auth', { json: { email, password } })).body.token
})
const everybody = () => [viewer, 'admin']

test('logs show a mail and its recipient, but neither link nor code, to everybody', () => {
  const ring = createRing(10)
  const link = `https://x.test/verify?token=${'a'.repeat(43)}`
  ring.sink({
    message: 'mail',
    attrs: { to: 'ana@x.test', subject: 'Hello', text: `Open ${link} now` },
    verbatim: true,
  })
  ring.sink({ message: 'sms', attrs: { to: '+491701234567', body: 'Your code is 123456' }, verbatim: true })
  assert.deepEqual(
    ring.entries().map(({ attrs }) => attrs),
    [
      { to: 'ana@x.test', subject: 'Hello', text: 'Open https://x.test/verify?token=*** now' },
      { to: '+491701234567', body: 'Your code is ***' },
    ],
  )
})

test('jobs show what they do, but no secret of it, to everybody', async () => {
  const payload = {
    url: 'http://127.0.0.1:9/hook?token=abcdef&page=2',
    headers: { authorization: 'Bearer abcdef', accept: '*/*' },
    code: 123456,
    big: 12345678901234567890n.toString(),
  }
  const { body: made, status } = await api.call('POST /api/admin/jobs', {
    as: 'admin',
    json: { type: 'http', payload, maxAttempts: 1 },
  })
  assert.equal(status, 201)
  const shown = {
    url: 'http://127.0.0.1:9/hook?token=***&page=2',
    headers: { authorization: '***', accept: '*/*' },
    code: '***',
    big: '12345678901234567890',
  }
  assert.deepEqual(made.payload, shown)
  const [{ kept }] = await api.sql('select payload::text as kept from svc.jobs where id = $1', [made.id])
  assert.match(kept, /token=abcdef/, 'the job itself has them')
  for (const as of everybody()) {
    assert.deepEqual((await api.call(`GET /api/admin/jobs/${made.id}`, { as })).body.payload, shown)
    const { items } = (await api.call('GET /api/admin/jobs?type=http', { as })).body
    assert.deepEqual(items[0].payload, shown)
  }
})

test('changes show that a secret changed, and not what it is, to everybody', async () => {
  await api.sql(
    `create table accounts (id int primary key, title text, api_token text, login_code text, zip_code text)`,
  )
  await eventually(async () => assert.equal((await api.call('GET /api/collections/accounts')).status, 200))
  const key = `svc_${'a1'.repeat(24)}`
  const row = { id: 1, title: `use ${key}`, api_token: 'plain', login_code: '123456', zip_code: '10115' }
  assert.equal((await api.call('POST /api/collections/accounts', { as: 'admin', json: row })).status, 201)
  await api.call('PATCH /api/collections/accounts/1', { as: 'admin', json: { api_token: 'other', zip_code: '10117' } })
  for (const as of everybody()) {
    const { body, text } = await api.call('GET /api/admin/changes?table=accounts', { as })
    assert.doesNotMatch(text, /svc_a1|plain|123456|other/)
    const [update, create] = body.items
    assert.deepEqual(update.changes.api_token, { old: '***', new: '***' })
    assert.deepEqual(update.changes.zip_code, { old: '10115', new: '10117' })
    assert.deepEqual(create.changes.title.new, 'use ***')
    assert.deepEqual(create.changes.login_code.new, '***')
  }
})
