import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'
import { talkTo } from '../../../test/kit/web-socket.ts'

const password = 'correct horse battery staple'
const config = { 'admin.dashboard_locked': true, 'admin.environment': 'production' }
const api = await startServer({ config })
await api.sql(`
  create table notes (id int primary key);
  create function writes() returns int language sql volatile as 'insert into notes values (9) returning id';
  create function reads() returns bigint language sql volatile as 'select count(*) from notes'`)
await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'create table reloaded ()' } })
const signIn = async (json: object = { password, client: 'dashboard' }) => {
  const { status, body } = await api.call('POST /api/admin/auth', { json })
  assert.equal(status, 200, JSON.stringify(body))
  return body.token as string
}
const locked = { code: 423, error: 'locked', message: 'the dashboard is locked: unlock it to write' }

test('a locked dashboard reads but does not write, until it is unlocked for ten minutes', async () => {
  const token = await signIn()
  const create = (id: number) => api.call('POST /api/collections/notes', { as: token, json: { id } })
  const { body: status } = await api.call('GET /api/admin/status', { as: token })
  assert.deepEqual([status.environment, status.locked], ['production', true])
  assert.equal((await api.call('GET /api/collections/notes', { as: token })).status, 200)
  for (const answer of [
    await create(1),
    await api.call('POST /api/admin/apps', { as: token, json: {} }),
    await api.call('POST /api/rpc/writes', { as: token, json: {} }),
    await api.call('POST /api/admin/impersonate', { as: token, json: { anonymous: true, write: true } }),
  ]) {
    assert.deepEqual([answer.status, answer.body], [423, locked])
  }
  const graph = await api.call('POST /api/graphql', {
    as: token,
    json: { query: 'mutation { insert_notes(objects: [{ id: 2 }]) { affected_rows } }' },
  })
  assert.equal(graph.body.errors[0].extensions.code, 423)
  assert.equal((await api.call('POST /api/rpc/reads', { as: token, json: {} })).body, 0)
  assert.equal(
    (await api.call('POST /api/admin/impersonate', { as: token, json: { anonymous: true } })).status,
    201,
    'an impersonation that reads',
  )
  const talk = await talkTo(api.url, { token })
  assert.equal((await talk.ask({ type: 'send', channel: 'x', event: 'e' })).code, 423)
  talk.close()

  const wrong = await api.call('POST /api/admin/unlock', { as: token, json: { password: 'wrong' } })
  assert.equal(wrong.status, 401)
  assert.equal((await create(1)).status, 423)
  const { status: unlocked, body } = await api.call('POST /api/admin/unlock', { as: token, json: { password } })
  assert.equal(unlocked, 200)
  const seconds = (Date.parse(body.unlocked_until) - Date.now()) / 1000
  assert.ok(seconds > 500 && seconds < 601, String(seconds))
  assert.equal((await create(1)).status, 201)
  assert.equal((await api.call('GET /api/admin/status', { as: token })).body.locked, false)

  const other = await signIn()
  const elsewhere = await api.call('POST /api/collections/notes', { as: other, json: { id: 3 } })
  assert.equal(elsewhere.status, 423, 'each token is unlocked for itself')

  const writer = (await api.call('POST /api/admin/impersonate', { as: token, json: { anonymous: true, write: true } }))
    .body
  assert.equal((await api.call('POST /api/collections/notes', { as: writer.token, json: { id: 4 } })).status, 201)
  await api.sql(
    `update svc.admin_tokens set unlocked_until = now() + interval '2 seconds' where unlocked_until is not null`,
  )
  const short = (await api.call('POST /api/admin/impersonate', { as: token, json: { anonymous: true, write: true } }))
    .body
  assert.ok(Date.parse(short.expires_at) - Date.now() < 3_000, 'it ends when the dashboard locks again')
  await api.sql(`update svc.admin_tokens set unlocked_until = now()`)
  assert.equal((await create(5)).status, 423)
})

test('tokens of other clients are not locked', async () => {
  const token = await signIn({ password })
  assert.equal((await api.call('POST /api/collections/notes', { as: token, json: { id: 20 } })).status, 201)
  assert.equal('locked' in (await api.call('GET /api/admin/status', { as: token })).body, false)
  assert.deepEqual(Object.keys((await api.call('GET /api/admin/status')).body), ['auth'])
})

test('a code opens a dashboard once, for what its maker may do', async () => {
  const maker = await signIn({ password })
  const { status, body } = await api.call('POST /api/admin/auth/code', { as: maker })
  assert.equal(status, 201)
  const left = (Date.parse(body.expires_at) - Date.now()) / 1000
  assert.ok(left > 30 && left <= 61, String(left))
  const both = await Promise.all([1, 2].map(() => api.call('POST /api/admin/auth', { json: { code: body.code } })))
  assert.deepEqual(both.map((answer) => answer.status).sort(), [200, 401])
  const { token } = both.find((answer) => answer.status === 200)?.body ?? {}
  assert.equal((await api.call('GET /api/admin/status', { as: token })).body.locked, true, 'it is a dashboard')
  const late = (await api.call('POST /api/admin/auth/code', { as: maker })).body.code
  await api.sql(`update svc.admin_codes set expires_at = now()`)
  assert.equal((await api.call('POST /api/admin/auth', { json: { code: late } })).status, 401)
  const orphan = (await api.call('POST /api/admin/auth/code', { as: maker })).body.code
  await api.call('POST /api/admin/auth/logout', { as: maker })
  assert.equal((await api.call('POST /api/admin/auth', { json: { code: orphan } })).status, 401)
  for (const json of [{}, { code: '' }, { code: 'x' }, { email: 'a@x.test' }]) {
    const answer = await api.call('POST /api/admin/auth', { json })
    assert.ok(answer.status === 400 || answer.status === 401, JSON.stringify(json))
  }
})

test('unlocking takes the credentials of the same administrator', async () => {
  const person = { password: 'long enough password', role: 'owner' }
  for (const email of ['ann@x.test', 'eve@x.test']) {
    await api.call('POST /api/admin/admins', { as: 'admin', json: { ...person, email } })
  }
  const ann = await signIn({ email: 'ann@x.test', password: person.password, client: 'dashboard' })
  const unlock = (json: object) => api.call('POST /api/admin/unlock', { as: ann, json })
  assert.equal((await unlock({ password })).status, 401, 'the shared one is not hers')
  assert.equal((await unlock({ email: 'eve@x.test', password: person.password })).status, 403)
  assert.equal((await unlock({ password: person.password })).status, 200)
  const [count] = await api.sql(`select count(*) from svc.admin_tokens where client is null and via = 'name'`)
  assert.equal(count.count, '0', 'the token that proved it is gone')
})

test('unlocking counts as signing in', async () => {
  const limited = await startServer({ config: { ...config, 'rate_limit.admin_login': '3/min' } })
  const { token } = (await limited.call('POST /api/admin/auth', { json: { password, client: 'dashboard' } })).body
  const tries = []
  for (let i = 0; i < 3; i++) {
    tries.push((await limited.call('POST /api/admin/unlock', { as: token, json: { password: 'wrong' } })).status)
  }
  assert.deepEqual(tries, [401, 401, 429])
})
