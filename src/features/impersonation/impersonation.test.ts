import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { talkTo } from '../../../test/kit/web-socket.ts'

const api = await startServer()
await api.sql(`
  create table notes (id int primary key, owner uuid default nullif(current_setting('svc.user_id', true), '')::uuid, title text, team text);
  alter table notes enable row level security;
  create policy own on notes using (owner = nullif(current_setting('svc.user_id', true), '')::uuid) with check (owner = nullif(current_setting('svc.user_id', true), '')::uuid);
  create policy team on notes for select using (team = svc.claims() ->> 'team');
  create policy open on notes for select to svc_anon using (title = 'public');
  create function reads() returns bigint language sql volatile as 'select count(*) from notes';
  create function writes() returns int language sql volatile as $$ insert into notes (id, title) values (90, 'by function') returning id $$;
  create function escapes() returns int language plpgsql volatile as $$
    begin set transaction_read_only = off; insert into notes (id) values (91); return 1; end $$;
  create function whoami() returns jsonb language sql stable as 'select svc.claims()'`)
await api.call('POST /api/admin/sql', { as: 'admin', json: { query: 'create table reloaded ()' } })
const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
await api.sql(`insert into notes (id, owner, title, team) values
  (1, '${ana.user.id}', 'of ana', null), (2, '${bo.user.id}', 'of bo', 'red'), (3, null, 'public', null)`)

const impersonate = async (json: object, as = 'admin') => {
  const { status, body } = await api.call('POST /api/admin/impersonate', { as, json })
  assert.equal(status, 201, JSON.stringify(body))
  return body as { token: string; expires_at: string }
}
const idsAs = async (token: string) => {
  const { status, body } = await api.call('GET /api/collections/notes?sort=id', { as: token })
  assert.equal(status, 200)
  return body.items.map(({ id }: { id: number }) => id)
}
const signIn = async () => {
  const json = { password: 'correct horse battery staple' }
  return (await api.call('POST /api/admin/auth', { json })).body.token as string
}

test('a user, a key, a visitor or claims are seen through their own eyes', async () => {
  const { body: made } = await api.call('POST /api/admin/api-keys', {
    as: 'admin',
    json: { userId: bo.user.id, name: 'k', scope: 'readonly' },
  })
  const user = await impersonate({ user_id: ana.user.id })
  assert.match(user.token, /^svc_im_[0-9a-f]{64}$/)
  const seconds = (Date.parse(user.expires_at) - Date.now()) / 1000
  assert.ok(seconds > 200 && seconds <= 301, String(seconds))
  assert.deepEqual(await idsAs(user.token), [1])
  assert.deepEqual(await idsAs((await impersonate({ key_id: made.apiKey.id })).token), [2])
  assert.deepEqual(await idsAs((await impersonate({ anonymous: true })).token), [3])
  const claims = { sub: ana.user.id, email: 'claimed@x.test', aal: 'aal2', team: 'red' }
  const claimed = (await impersonate({ claims })).token
  assert.deepEqual(await idsAs(claimed), [1, 2])
  const { body } = await api.call('POST /api/rpc/whoami', { as: claimed, json: {} })
  assert.equal(body.email, 'claimed@x.test')
  assert.deepEqual([body.aal, body.team], ['aal2', 'red'])
  assert.equal((await api.call('GET /api/auth/me', { as: user.token })).body.email, 'ana@x.test')
  assert.equal((await api.call('GET /api/schema', { as: user.token })).status, 200)
})

test('exactly one subject, which has to be there', async () => {
  const refused = async (json: object, status: number, message: string) => {
    const answer = await api.call('POST /api/admin/impersonate', { as: 'admin', json })
    assert.deepEqual([answer.status, answer.body.message], [status, message])
  }
  const one = 'exactly one of user_id, key_id, anonymous and claims is required'
  const missing = crypto.randomUUID()
  await refused({}, 400, one)
  await refused({ anonymous: false }, 400, one)
  await refused({ user_id: ana.user.id, anonymous: true }, 400, one)
  await refused({ user_id: missing }, 404, 'user not found')
  await refused({ key_id: missing }, 404, 'api key not found')
  await refused({ claims: { email: 'x@x.test' } }, 400, 'claims.sub must be a user id')
  assert.equal((await api.call('POST /api/admin/impersonate', { json: { anonymous: true } })).status, 401)
})

test('it reads, and writes only when it was made to', async () => {
  const { token } = await impersonate({ user_id: ana.user.id })
  for (const [line, json] of [
    ['POST /api/collections/notes', { id: 10 }],
    ['PATCH /api/collections/notes/1', { title: 'x' }],
    ['DELETE /api/collections/notes/1', undefined],
    ['POST /api/collections/notes/batch', { operations: [{ method: 'create', body: { id: 10 } }] }],
    ['POST /api/rpc/writes', {}],
    ['POST /api/rpc/escapes', {}],
    ['POST /api/storage/any', undefined],
    ['POST /api/realtime/channels/x', { event: 'e' }],
  ] as const) {
    const { status, body } = await api.call(line, { as: token, ...(json && { json }) })
    assert.ok(
      status === 403 || (line.endsWith('escapes') && status >= 400 && status < 500),
      `${line} ${status} ${JSON.stringify(body)}`,
    )
  }
  assert.equal((await api.call('POST /api/rpc/reads', { as: token, json: {} })).body, 1)
  const graph = (query: string, as: string) => api.call('POST /api/graphql', { as, json: { query } })
  assert.deepEqual((await graph('{ notes { id } }', token)).body.data, { notes: [{ id: 1 }] })
  const mutation = 'mutation { insert_notes(objects: [{ id: 11 }]) { affected_rows } }'
  assert.equal((await graph(mutation, token)).body.errors[0].extensions.code, 403)

  const writer = (await impersonate({ user_id: ana.user.id, write: true })).token
  const made = await api.call('POST /api/collections/notes', { as: writer, json: { id: 12, title: 'as ana' } })
  assert.deepEqual([made.status, made.body.owner], [201, ana.user.id])
  assert.equal((await api.call('POST /api/rpc/writes', { as: writer, json: {} })).body, 90)
  assert.deepEqual(await idsAs(ana.token), [1, 12, 90])
})

test('what is done as another is in the audit trail, with both', async () => {
  const { token } = await impersonate({ user_id: bo.user.id, write: true })
  await api.call('POST /api/collections/notes', { as: token, json: { id: 20 } })
  await api.call('POST /api/collections/notes', { as: token, json: { id: 20 } })
  const { body } = await api.call(`GET /api/admin/audit?user_id=${bo.user.id}`, { as: 'admin' })
  const entries = body.items.filter(({ action }: { action: string }) => action === 'impersonation.request')
  assert.deepEqual(
    entries.map(({ target, impersonated_by, actor }: Record<string, string>) => [target, impersonated_by, actor]),
    [['POST /api/collections/notes', 'admin', 'user']],
    'a refusal changes nothing and leaves no entry',
  )
  const [start] = (await api.call('GET /api/admin/audit?action=admin.impersonate&limit=1', { as: 'admin' })).body.items
  assert.deepEqual([start.target, start.new_values], [bo.user.id, { user_id: bo.user.id, write: true }])
  const [change] = await api.sql(`select actor->>'impersonatedBy' as by from svc.changes order by id desc limit 1`)
  assert.equal(change.by, 'admin')
})

test('it ends with the session of the administrator, everywhere and at once', async () => {
  const other = await startServer({ on: api })
  const admin = await signIn()
  const { token } = await impersonate({ user_id: ana.user.id }, admin)
  const stream = await listenTo(api.url, { token, query: { tables: 'notes' } })
  assert.equal(stream.status, 200)
  assert.equal((await other.call('GET /api/collections/notes', { as: token })).status, 200)
  assert.equal((await api.call('POST /api/admin/auth/logout', { as: admin })).status, 204)
  assert.equal((await api.call('GET /api/collections/notes', { as: token })).status, 401)
  assert.equal((await api.call('GET /api/admin/stats', { as: admin })).status, 401)
  await stream.ended()
  await eventually(async () =>
    assert.equal((await other.call('GET /api/collections/notes', { as: token })).status, 401),
  )
})

test('realtime shows what the other would hear', async () => {
  const { token } = await impersonate({ user_id: ana.user.id })
  const talk = await talkTo(api.url, { token })
  assert.equal((await talk.ask({ type: 'subscribe', tables: ['notes'] })).status, 'ok')
  assert.equal((await talk.ask({ type: 'join', channel: 'x' })).code, 403)
  await api.call('POST /api/collections/notes', { as: bo.token, json: { id: 30 } })
  await api.call('POST /api/collections/notes', { as: ana.token, json: { id: 31 } })
  await eventually(() =>
    assert.deepEqual(
      talk.events().map(({ record }) => record.id),
      [31],
    ),
  )
  talk.close()
})
