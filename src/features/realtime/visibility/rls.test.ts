import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { AS_INVOKER } from '../../../../test/kit/cluster.ts'
import { type EventReader, listenTo } from '../../../../test/kit/event-stream.ts'
import { eventually, type InProcessServer, type SignedUp, startServer } from '../../../../test/kit/kit.ts'
import { openConnection } from '../../../db/protocol/driver.ts'

let api: InProcessServer
let ana: SignedUp
let bo: SignedUp

const UID = `nullif(current_setting('svc.user_id', true), '')::uuid`

before(async () => {
  api = await startServer({ config: { 'log.level': 'info' } })
  await api.sql(`
    create table notes (id serial primary key, owner uuid default ${UID}, title text, shared boolean not null default false, secret text);
    alter table notes enable row level security;
    create policy own on notes using (owner = ${UID}) with check (true);
    create policy shared_rows on notes for select using (shared);
    revoke select on notes from svc_authenticated;
    grant select (id, owner, title, shared) on notes to svc_authenticated;
    create table locked (id int primary key); revoke all on locked from svc_authenticated, svc_anon;
    create table members (team int, member uuid);
    create table docs (team int, n int, body text, primary key (team, n));
    alter table docs enable row level security;
    create policy team on docs using (exists (select 1 from members m where m.team = docs.team and m.member = ${UID}));
    create policy no_drafts on docs as restrictive using (body <> 'draft');
    create table open (id serial primary key, v text);
    create table fragile (id int primary key, v text);
    alter table fragile enable row level security;
    create policy breaks on fragile using (v <> 'boom' or (1 / (case when current_setting('svc.user_email') = 'ana@x.test' then 0 else 1 end)) = 1);
    create table note (id int primary key, note text, owner uuid default ${UID}); alter table note enable row level security;
    create policy own on note using (owner = ${UID}) with check (true);
    create table sealed (id int primary key); alter table sealed enable row level security;
    create view open_view ${AS_INVOKER} as select * from notes;
  `)
  ;[ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
  await api.sql(`insert into members values (1, '${ana.user.id}'), (2, '${bo.user.id}')`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/sealed', { as: 'admin' })).status, 200),
  )
})

const told = (stream: EventReader) => stream.changes().map(({ action, record }) => [action, record])
/** Everything before this has been delivered when it arrives. */
async function settle(...streams: EventReader[]): Promise<void> {
  const v = `mark ${Math.random()}`
  await api.call('POST /api/collections/open', { as: 'admin', json: { v } })
  await Promise.all(streams.map((stream) => stream.until(({ data }) => data.record?.v === v)))
}
const forget = (...streams: EventReader[]): void => {
  for (const stream of streams) stream.events.length = 0
}

test('a column that is called like its table is a value, and never taken for a row', async () => {
  const [own, others] = [
    await listenTo(api.url, { token: ana.token, query: { tables: 'note,open' } }),
    await listenTo(api.url, { token: bo.token, query: { tables: 'note,open' } }),
  ]
  const note = `(9,"not yours",${bo.user.id})`
  const made = await api.call('POST /api/collections/note', { as: ana.token, json: { id: 1, note } })
  assert.equal(made.status, 201)
  await api.call('PATCH /api/collections/note/1', { as: ana.token, json: { note: 'ordinary' } })
  await settle(own, others)
  const row = { id: 1, note, owner: ana.user.id }
  assert.deepEqual(told(own).slice(0, 2), [
    ['create', row],
    ['update', { ...row, note: 'ordinary' }],
  ])
  assert.deepEqual(told(others).length, 1)
  own.close()
  others.close()
})

test('a stream needs a good token, and the header and the query must agree', async () => {
  const refusals: [string, Record<string, string>, string][] = [
    ['', {}, 'authentication required'],
    ['?token=', {}, 'authentication required'],
    ['?token=nonsense', {}, 'invalid or expired token'],
    [`?token=${ana.token}x`, {}, 'invalid or expired token'],
    ['', { authorization: 'Bearer nonsense' }, 'invalid or expired token'],
    [`?token=${bo.token}`, { authorization: `Bearer ${ana.token}` }, 'invalid or expired token'],
  ]
  for (const [query, headers, message] of refusals) {
    const answer = await api.call(`GET /api/realtime${query}`, { headers })
    const error = message === 'authentication required' ? 'unauthorized' : 'invalid_token'
    assert.deepEqual([answer.status, answer.body], [401, { code: 401, error, message }])
  }
  for (const ask of [
    { token: ana.token },
    { query: { token: ana.token } },
    { token: ana.token, query: { token: ana.token } },
  ]) {
    const stream = await listenTo(api.url, ask)
    assert.equal(stream.status, 200)
    stream.close()
  }
})

test('a token in the query never reaches a log, whose it is does', async () => {
  const stream = await listenTo(api.url, { query: { token: bo.token, tables: 'open' } })
  stream.close()
  const isIt = (path: unknown) => String(path).startsWith('/api/realtime')
  await eventually(() => {
    const lines = api.observations.filter(({ attrs }) => isIt(attrs?.['path']))
    assert.ok(lines.some(({ attrs }) => attrs?.['userId'] === bo.user.id))
  })
  assert.ok(!JSON.stringify(api.observations).includes(bo.token))
})

test("a key in the query spends its app's limit", async () => {
  const admin = { as: 'admin' } as const
  const app = await api.call('POST /api/admin/apps', { ...admin, json: { name: 'shop', ownerUserId: bo.user.id } })
  const { id } = app.body
  const limits = { name: 'shop', description: '', rateLimitRps: 2, rateLimitWindowSeconds: 3600 }
  assert.equal((await api.call(`PUT /api/admin/apps/${id}`, { ...admin, json: limits })).status, 200)
  const made = await api.call('POST /api/admin/api-keys', {
    ...admin,
    json: { userId: bo.user.id, name: 'reader', appId: id },
  })
  const answers = []
  for (let i = 0; i < 3; i++) {
    const stream = await listenTo(api.url, { query: { token: made.body.key, tables: 'open' } })
    answers.push(stream.status)
    stream.close()
  }
  assert.deepEqual(answers, [200, 200, 429])
})

test('tables a caller may not read are unknown to it', async () => {
  for (const table of ['locked', 'missing', 'pg_class', 'svc.users']) {
    const answer = await api.call(`GET /api/realtime?tables=${table}`, { as: ana.token })
    assert.deepEqual(answer.body, { code: 400, error: 'unknown_table', message: `unknown table: ${table}` })
  }
})

test('each subscriber hears of the rows it can see, in its own columns; the admin hears everything', async () => {
  const [forAna, forBo, forAdmin] = [
    await listenTo(api.url, { token: ana.token }),
    await listenTo(api.url, { token: bo.token }),
    await listenTo(api.url, { token: await api.adminToken() }),
  ]
  const [{ id }] = await api.sql(`select nextval('notes_id_seq') as id`)
  const make = (
    await api.call('POST /api/collections/notes', {
      as: 'admin',
      json: { id: Number(id), owner: ana.user.id, title: 'a', secret: 'hidden' },
    })
  ).body
  assert.equal(make.title, 'a')
  const change = (json: object) => api.call(`PATCH /api/collections/notes/${id}`, { as: 'admin', json })
  const row = (more: object) => ({ id: Number(id), owner: ana.user.id, title: 'a', shared: false, ...more })

  await settle(forAna, forBo, forAdmin)
  assert.deepEqual(told(forAna)[0], ['create', row({})])
  assert.deepEqual(
    told(forBo).filter(([, record]) => !record.v),
    [],
  )
  assert.equal(told(forAdmin)[0]?.[1].secret, 'hidden')
  forget(forAna, forBo, forAdmin)

  await change({ shared: true }) // comes into bo's sight
  await change({ title: 'b' })
  await change({ shared: false }) // leaves it
  await change({ title: 'c' })
  await change({ owner: bo.user.id }) // leaves ana's sight, comes into bo's
  await api.call(`DELETE /api/collections/notes/${id}`, { as: 'admin' })
  await settle(forAna, forBo, forAdmin)
  // Visibility is that of delivery time, so what is told in full may be later than the change; what may not be seen never is.
  const secrets = [forAna, forBo].flatMap((stream) => stream.text().match(/hidden/g) ?? [])
  assert.deepEqual(secrets, [])
  assert.deepEqual(
    told(forBo)
      .filter(([, record]) => !record.v)
      .at(-1),
    ['delete', { id: Number(id) }],
  )
  assert.ok(told(forAna).some(([action]) => action === 'delete'))
  for (const stream of [forAna, forBo, forAdmin]) stream.close()
})

test('step by step: coming into sight, leaving it, and the delete of an unseen row', async () => {
  const [forAna, forBo] = [await listenTo(api.url, { token: ana.token }), await listenTo(api.url, { token: bo.token })]
  const step = async (line: Parameters<typeof api.call>[0], json?: object) => {
    forget(forAna, forBo)
    const { body } = await api.call(line, { as: 'admin', ...(json && { json }) })
    await settle(forAna, forBo)
    const heard = (stream: EventReader) =>
      stream
        .changes()
        .filter(({ table }) => table === 'notes')
        .map(({ action, record }) => [action, record.title])
    return { body, ana: heard(forAna), bo: heard(forBo) }
  }
  const made = await step('POST /api/collections/notes', { owner: ana.user.id, title: '1' })
  const path = `/api/collections/notes/${made.body.id}` as const
  assert.deepEqual([made.ana, made.bo], [[['create', '1']], []])
  let then = await step(`PATCH ${path}`, { shared: true, title: '2' })
  assert.deepEqual([then.ana, then.bo], [[['update', '2']], [['update', '2']]])
  then = await step(`PATCH ${path}`, { shared: false, title: '3' })
  assert.deepEqual([then.ana, then.bo], [[['update', '3']], [['delete', undefined]]])
  then = await step(`PATCH ${path}`, { title: '4' })
  assert.deepEqual([then.ana, then.bo], [[['update', '4']], []])
  then = await step(`PATCH ${path}`, { owner: bo.user.id, title: '5' })
  assert.deepEqual([then.ana, then.bo], [[['delete', undefined]], [['update', '5']]])
  then = await step(`DELETE ${path}`)
  assert.deepEqual([then.ana, then.bo], [[], [['delete', undefined]]])
  forAna.close()
  forBo.close()
})

test('a row that came and went before the check is judged by its image', async () => {
  const [forAna, forBo] = [await listenTo(api.url, { token: ana.token }), await listenTo(api.url, { token: bo.token })]
  await api.sql(`insert into svc.change_log (shape, table_oid, action, key, record)
    select k.id, 'notes'::regclass, 'c', '999999', '{"id": 999999, "owner": "${ana.user.id}", "title": "ghost", "shared": false, "secret": "s"}'
    from svc.keep_shape('notes'::regclass) k`)
  await settle(forAna, forBo)
  assert.deepEqual(told(forAna)[0], ['create', { id: 999999, owner: ana.user.id, title: 'ghost', shared: false }])
  assert.ok(!forBo.text().includes('ghost'))
  forAna.close()
  forBo.close()
})

test('a row that goes while it is checked is judged by its image', async () => {
  const lock = 4711
  await api.sql(`
    create function wait() returns boolean language plpgsql as $$
      begin perform pg_advisory_xact_lock_shared(${lock}); return true; end $$;
    create table waited (id int primary key); alter table waited enable row level security;
    create policy waits on waited using (wait());
    create table fleeting (id int primary key); alter table fleeting enable row level security;
    create policy everyone on fleeting using (true);
    select svc.watch('waited'), svc.watch('fleeting');
  `)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/fleeting', { as: ana.token })).status, 200),
  )
  const forAna = await listenTo(api.url, { token: ana.token })
  const locker = await openConnection({ url: api.databaseUrl })
  await locker.query(`select pg_advisory_lock(${lock})`)
  // One batch of changes. The check of the first waits, when it is known already that the row of the second is there.
  await api.sql('begin; insert into waited values (1); insert into fleeting values (1); commit')
  await eventually(async () => {
    const waiting = await api.sql(`select 1 from pg_locks where objid = ${lock} and not granted`)
    assert.equal(waiting.length, 1)
  })
  await api.sql('delete from fleeting')
  await locker.end()
  await settle(forAna)
  assert.deepEqual(
    forAna.changes().map(({ action, table }) => [action, table]),
    [
      ['create', 'waited'],
      ['create', 'fleeting'],
      ['delete', 'fleeting'],
      ['create', 'open'],
    ],
  )
  forAna.close()
})

test('policies with subqueries, restrictive policies and composite keys hold for deletes too', async () => {
  const [forAna, forBo] = [await listenTo(api.url, { token: ana.token }), await listenTo(api.url, { token: bo.token })]
  const admin = (line: Parameters<typeof api.call>[0], json?: object) =>
    api.call(line, { as: 'admin', ...(json && { json }) })
  for (const doc of [
    { team: 1, n: 1, body: 'x' },
    { team: 2, n: 1, body: 'y' },
    { team: 1, n: 2, body: 'draft' },
  ])
    await admin('POST /api/collections/docs', doc)
  await settle(forAna, forBo)
  for (const path of ['1,1', '2,1', '1,2']) await admin(`DELETE /api/collections/docs/${path}`)
  await settle(forAna, forBo)
  const docs = (stream: EventReader) => told(stream).filter(([, record]) => record.team !== undefined)
  assert.deepEqual(docs(forAna), [
    ['create', { team: 1, n: 1, body: 'x' }],
    ['delete', { team: 1, n: 1 }],
  ])
  assert.deepEqual(docs(forBo), [
    ['create', { team: 2, n: 1, body: 'y' }],
    ['delete', { team: 2, n: 1 }],
  ])
  forAna.close()
  forBo.close()
})

test('a policy changed in mid-stream counts for the next event', async () => {
  const stream = await listenTo(api.url, { token: bo.token })
  const add = (id: number) => api.call('POST /api/collections/sealed', { as: 'admin', json: { id } })
  await add(1)
  await settle(stream)
  await api.sql('create policy all_of_it on sealed using (true)')
  await add(2)
  await stream.until(({ data }) => data.record?.id === 2 && data.table === 'sealed')
  await api.sql('drop policy all_of_it on sealed')
  await add(3)
  await settle(stream)
  await api.sql("alter table open enable row level security; create policy marks on open using (v like 'mark%')")
  await api.call('POST /api/collections/open', { as: 'admin', json: { v: 'not for users' } })
  await settle(stream)
  await api.sql('alter table open disable row level security')
  assert.deepEqual(
    stream
      .changes()
      .filter(({ table }) => table === 'sealed')
      .map(({ record }) => record.id),
    [2],
  )
  assert.ok(!stream.text().includes('not for users'))
  stream.close()
})

test('a policy that raises ends the streams of that identity alone', async () => {
  const [forAna, forBo] = [await listenTo(api.url, { token: ana.token }), await listenTo(api.url, { token: bo.token })]
  await api.call('POST /api/collections/fragile', { as: 'admin', json: { id: 1, v: 'boom' } })
  const error = await forAna.until(({ event }) => event === 'error')
  assert.equal(error.data.code, 403)
  await forAna.ended()
  await forBo.until(({ data }) => data.table === 'fragile')
  await settle(forBo)
  forBo.close()
})

test('rows written through a view are not told to users, whose policies could not be asked', async () => {
  const stream = await listenTo(api.url, { token: bo.token })
  await api.call('POST /api/collections/open_view', {
    as: 'admin',
    json: { owner: ana.user.id, title: 'through the view' },
  })
  await settle(stream)
  assert.ok(!stream.text().includes('through the view'))
  stream.close()
})

test('a filter does not reveal what an unseen row held', async () => {
  const stream = await listenTo(api.url, { token: bo.token, query: { tables: 'notes', filter: "title='password'" } })
  const { id } = (
    await api.call('POST /api/collections/notes', { as: 'admin', json: { owner: ana.user.id, title: 'password' } })
  ).body
  await api.call(`PATCH /api/collections/notes/${id}`, { as: 'admin', json: { title: 'other', shared: true } })
  await api.call('POST /api/collections/notes', { as: 'admin', json: { owner: bo.user.id, title: 'password' } })
  await stream.until(({ event }) => event === 'message')
  assert.deepEqual(
    stream.changes().map(({ action, record }) => [action, record.owner]),
    [['create', bo.user.id]],
  )
  assert.equal(
    (await api.call(`GET /api/realtime?tables=notes&filter=secret%3D'x'`, { as: ana.token })).body.message,
    'invalid filter: unknown column: secret',
  )
  stream.close()
})

test('an API key hears only of its own tables', async () => {
  const made = await api.call('POST /api/auth/api-keys', {
    as: ana.token,
    json: { name: 'k', scope: 'readonly', allowedTables: ['open'] },
  })
  const { key } = made.body
  const refused = await api.call('GET /api/realtime?tables=notes', { as: key })
  assert.deepEqual(refused.body, {
    code: 403,
    error: 'insufficient_scope',
    message: 'api key does not have access to table: notes',
  })
  const stream = await listenTo(api.url, { query: { token: key } })
  await api.call('POST /api/collections/notes', { as: ana.token, json: { title: 'mine, but not the key’s' } })
  await settle(stream)
  assert.deepEqual([...new Set(stream.changes().map(({ table }) => table))], ['open'])
  stream.close()
})

test('a stream ends when its session is signed out, its key revoked, or the secret rotated', async () => {
  const eve = await api.signUp('eve@x.test')
  const session = await listenTo(api.url, { token: eve.token })
  const out = await api.call('POST /api/auth/logout', { as: eve.token, json: { refreshToken: eve.refreshToken } })
  assert.ok(out.status < 300, out.text)
  const gone = await session.until(({ event }) => event === 'error')
  assert.deepEqual(gone.data, { code: 401, error: 'invalid_token', message: 'invalid or expired token' })
  await session.ended()
  assert.equal((await api.call('GET /api/realtime', { as: eve.token })).status, 401)

  const { key, apiKey } = (await api.call('POST /api/auth/api-keys', { as: ana.token, json: { name: 'k2' } })).body
  const keyed = await listenTo(api.url, { token: key })
  const revoked = await api.call(`DELETE /api/auth/api-keys/${apiKey.id}`, { as: ana.token })
  assert.equal(revoked.status, 204)
  await keyed.until(({ event }) => event === 'error')

  const there = await startServer({ on: api })
  const [here, far, admin] = [
    await listenTo(api.url, { token: bo.token }),
    await listenTo(there.url, { token: bo.token }),
    await listenTo(api.url, { token: await api.adminToken() }),
  ]
  const rotated = await api.call('POST /api/admin/secrets/rotate', { as: 'admin' })
  assert.equal(rotated.status, 200, rotated.text)
  await Promise.all([here.until(({ event }) => event === 'error'), far.until(({ event }) => event === 'error')])
  assert.equal(admin.closed, false)
  admin.close()
  await there.stop()
})

test('a stream ends when its token expires', async () => {
  const brief = await startServer({ on: api, config: { 'auth.token_duration': 3 } })
  let { refreshToken } = await brief.signUp('brief@x.test')
  const stream = await eventually(async () => {
    const { body } = await brief.call('POST /api/auth/refresh', { json: { refreshToken } })
    refreshToken = body.refreshToken
    const opened = await listenTo(brief.url, { token: body.token })
    assert.equal(opened.status, 200)
    return opened
  })
  const error = await stream.until(({ event }) => event === 'error')
  assert.equal(error.data.message, 'invalid or expired token')
  await stream.ended()
  await brief.stop()
})

test('a user may hold so many streams, and closing one makes room', async () => {
  const tight = await startServer({ on: api, config: { 'realtime.max_connections_per_user': 2 } })
  const user = await tight.signUp('many@x.test')
  const streams = [await listenTo(tight.url, { token: user.token }), await listenTo(tight.url, { token: user.token })]
  const answer = await tight.call('GET /api/realtime', { as: user.token })
  assert.deepEqual(
    [answer.status, answer.body],
    [429, { code: 429, error: 'connection_limit', message: 'connection limit exceeded' }],
  )
  assert.ok(answer.headers.get('retry-after'))
  for (let i = 0; i < 5; i++)
    assert.equal((await tight.call('GET /api/realtime?tables=missing', { as: user.token })).status, 400)
  streams[0]?.close()
  const again = await eventually(async () => {
    const stream = await listenTo(tight.url, { token: user.token })
    if (stream.status !== 200) throw new Error(String(stream.status))
    return stream
  })
  again.close()
  streams[1]?.close()
  await tight.stop()
})
