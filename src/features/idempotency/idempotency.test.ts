import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { before, test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import { openConnection } from '../../db/protocol/driver.ts'

let api: InProcessServer
let other: InProcessServer
let ann: { token: string; refreshToken: string; user: { id: string } }

before(async () => {
  api = await startServer({ config: { 'api.statement_timeout': 5 } })
  await api.sql(`
    create table notes (id int generated always as identity primary key, title text not null, owner text default current_setting('svc.user_id', true));
    create table slugs (slug text primary key, n int);
    create table parents (id int primary key);
    create table children (id int primary key, parent int references parents deferrable initially deferred);
    create table calls (id int generated always as identity, n int);
    create function add_call(n int) returns int language sql as 'insert into calls (n) values (n) returning n';
    create function void_call() returns void language sql as 'insert into calls (n) values (0)';
    create function constant() returns int language sql immutable as 'select 7';
    create function claims_so() returns void language plpgsql as $$ begin raise exception 'x' using errcode = 'SVK02'; end $$;
  `)
  other = await startServer({ on: api, config: { 'api.statement_timeout': 5 } })
  ann = await api.signUp('ann@x.test')
})

const newKey = () => `key-${randomUUID()}`
const count = async (table: string, where = 'true') =>
  Number((await api.sql(`select count(*) as n from ${table} where ${where}`))[0].n)
const keyed = (key: string, headers: Record<string, string> = {}) => ({ 'idempotency-key': key, ...headers })

type Line = Parameters<InProcessServer['call']>[0]

test('a write with a key happens once and is answered twice, by any process', async () => {
  const [{ id }] = await api.sql(`insert into notes (title) values ('to change') returning id`)
  const [{ id: gone }] = await api.sql(`insert into notes (title) values ('to delete') returning id`)
  const writes: [Line, unknown, number][] = [
    ['POST /api/collections/notes', { title: 'once' }, 201],
    ['POST /api/collections/slugs?onConflict=slug', { slug: 'a', n: 1 }, 201],
    [`PATCH /api/collections/notes/${id}`, { title: 'changed' }, 200],
    [`DELETE /api/collections/notes/${gone}`, undefined, 204],
    ['POST /api/collections/notes/batch', { operations: [{ method: 'create', body: { title: 'in a batch' } }] }, 200],
    ['POST /api/rpc/add_call', { n: 3 }, 200],
    ['POST /api/rpc/void_call', {}, 204],
    ['POST /api/rpc/constant', {}, 200],
  ]
  for (const [line, json, status] of writes) {
    const options = { as: ann.token, headers: keyed(newKey()), ...(json !== undefined && { json }) }
    const first = await api.call(line, options)
    assert.equal(first.status, status, `${line}: ${first.text}`)
    assert.equal(first.headers.get('idempotency-replayed'), null)
    for (const server of [api, other]) {
      const again = await server.call(line, options)
      assert.deepEqual([again.status, again.text], [status, first.text], line)
      assert.equal(again.headers.get('idempotency-replayed'), 'true')
    }
  }
  assert.deepEqual(
    [await count('notes', `title = 'once'`), await count('notes', `title = 'in a batch'`), await count('calls')],
    [1, 1, 2],
  )
  assert.equal((await api.call('POST /api/collections/slugs', { json: { slug: 'a' } })).status, 409)
  const [{ changes }] = await api.sql(
    `select count(*) as changes from svc.changes where table_name = 'notes' and action = 'create'`,
  )
  assert.equal(Number(changes), 2)
})

test('an import with a key happens once', async () => {
  const options = {
    as: ann.token,
    body: 'slug,n\nx,1\ny,2\n',
    headers: keyed(newKey(), { 'content-type': 'text/csv' }),
  }
  const line = 'POST /api/collections/slugs/import'
  const first = await api.call(line, options)
  assert.deepEqual([first.status, first.body.created], [200, 2], first.text)
  const again = await other.call(line, options)
  assert.deepEqual([again.status, again.text, again.headers.get('idempotency-replayed')], [200, first.text, 'true'])
  const another = await api.call(line, { ...options, body: 'slug,n\nz,1\n' })
  assert.deepEqual([another.status, another.body.message], [422, 'idempotency key was used for another request'])

  const dry = { ...options, headers: keyed(newKey(), { 'content-type': 'text/csv' }), body: 'slug,n\ndry,1\n' }
  for (let i = 0; i < 2; i++) {
    const { status, body, headers } = await api.call(`${line}?dry_run=true`, dry)
    assert.deepEqual(
      [status, body, headers.get('idempotency-replayed')],
      [200, { created: 1, updated: 0, skipped: 0, dry_run: true }, null],
    )
  }
})

test('a key belongs to caller, method, path, query and body', async () => {
  const key = newKey()
  const bob = await api.signUp('bob@x.test')
  const create = (as: string, json: unknown, path = '') =>
    api.call(`POST /api/collections/notes${path}` as Line, { as, json, headers: keyed(key) })
  const first = await create(ann.token, { title: 'mine' })
  const other = await create(bob.token, { title: 'mine' })
  assert.deepEqual([other.status, other.body.owner], [201, bob.user.id])
  const batch = await create(ann.token, { operations: [{ method: 'create', body: { title: 'mine' } }] }, '/batch')
  assert.equal(batch.status, 200)
  const changed = await create(ann.token, { title: 'other' })
  assert.deepEqual(
    [changed.status, changed.body],
    [422, { code: 422, error: 'idempotency_key_reused', message: 'idempotency key was used for another request' }],
  )
  assert.equal((await create(ann.token, {})).status, 422, 'also where the other body is refused')
  assert.equal(await count('notes', `title = 'mine'`), 3)
  assert.equal(await count('notes', `title = 'other'`), 0)

  const renewed = await api.call('POST /api/auth/refresh', { json: { refreshToken: ann.refreshToken } })
  ann = { ...ann, token: renewed.body.token, refreshToken: renewed.body.refreshToken }
  assert.equal((await create(ann.token, { title: 'mine' })).text, first.text, 'the next token is the same caller')
})

test('nothing is kept of a refusal', async () => {
  const options = { as: ann.token, headers: keyed(newKey()) }
  const create = (json: unknown) => api.call('POST /api/collections/slugs', { ...options, json })
  await api.sql(`insert into slugs values ('taken')`)
  assert.equal((await create({ slug: 'taken' })).status, 409)
  await api.sql(`delete from slugs where slug = 'taken'`)
  assert.equal((await create({ slug: 'taken' })).status, 201)
  assert.equal((await create({ slug: 'taken' })).headers.get('idempotency-replayed'), 'true')

  const patch = { ...options, headers: keyed(newKey()), json: { n: 1 } }
  assert.equal((await api.call('PATCH /api/collections/slugs/later', patch)).status, 404)
  await api.sql(`insert into slugs values ('later')`)
  assert.equal((await api.call('PATCH /api/collections/slugs/later', patch)).status, 200)

  const deferred = { ...options, headers: keyed(newKey()), json: { id: 1, parent: 1 } }
  const orphan = await api.call('POST /api/collections/children', deferred)
  assert.deepEqual([orphan.status, orphan.body.error], [400, 'foreign_key_violation'])
  await api.sql('insert into parents values (1)')
  assert.equal((await api.call('POST /api/collections/children', deferred)).status, 201)

  const bad = await api.call('POST /api/collections/slugs/batch', {
    as: ann.token,
    headers: keyed(newKey()),
    json: {
      operations: [
        { method: 'create', body: { slug: 'one' } },
        { method: 'create', body: { slug: 'taken' } },
      ],
    },
  })
  assert.deepEqual([bad.status, bad.body.data.operation?.message], [409, 'operation[1]'], bad.text)
})

test('a key is 1 to 255 visible ASCII characters, that of a visitor at least 32', async () => {
  const create = (key: string, as?: string) =>
    api.call('POST /api/collections/notes', { ...(as && { as }), json: { title: 'k' }, headers: keyed(key) })
  for (const key of ['a b', '\u00e9', 'x'.repeat(256), '']) {
    const { status, body } = await create(key, ann.token)
    assert.deepEqual(
      [status, body.error, body.message],
      [400, 'invalid_idempotency_key', 'invalid idempotency key'],
      key,
    )
  }
  assert.equal((await create('!', ann.token)).status, 201)
  assert.equal((await create('x'.repeat(31))).status, 400)
  const visitor = newKey()
  assert.equal((await create(visitor)).status, 201)
  assert.equal((await create(visitor)).headers.get('idempotency-replayed'), 'true')
  const read = await api.call('GET /api/collections/notes', { headers: keyed('a b') })
  assert.equal(read.status, 200, 'other routes ignore the header')
})

test('while the first still runs, the same request waits for it and holds no connection', async () => {
  const held = await openConnection({ url: api.databaseUrl })
  await held.query(`begin; insert into slugs values ('slow')`)
  const options = { as: ann.token, json: { slug: 'slow' }, headers: keyed(newKey()) }
  const send = (server: InProcessServer) => server.call('POST /api/collections/slugs', options)
  const first = send(api)
  await eventually(async () => {
    const waiting = await count('pg_stat_activity', `datname = current_database() and wait_event_type = 'Lock'`)
    assert.equal(waiting, 1)
  })
  const waiters = Array.from({ length: 20 }, () => send(api))
  const [tooMany, elsewhere] = [await send(api), send(other)]
  assert.deepEqual(
    [tooMany.status, tooMany.body.error, tooMany.body.message],
    [409, 'in_progress', 'still in progress'],
  )
  assert.equal(await count('pg_stat_activity', `datname = current_database() and wait_event_type = 'Lock'`), 1)
  await held.query('rollback')
  await held.end()
  const made = await first
  assert.equal(made.status, 201)
  for (const answer of await Promise.all([...waiters, elsewhere])) {
    assert.deepEqual([answer.status, answer.text], [201, made.text])
    assert.equal(answer.headers.get('idempotency-replayed'), 'true')
  }
})

test('an import waits for the same import of another process, with the body it has read', async () => {
  const held = await openConnection({ url: api.databaseUrl })
  await held.query(`begin; insert into slugs values ('i1')`)
  const options = {
    as: ann.token,
    body: 'slug,n\ni1,1\ni2,2\n',
    headers: keyed(newKey(), { 'content-type': 'text/csv' }),
  }
  const first = api.call('POST /api/collections/slugs/import', options)
  await eventually(async () => {
    const waiting = await count('pg_stat_activity', `datname = current_database() and wait_event_type = 'Lock'`)
    assert.equal(waiting, 1)
  })
  const second = other.call('POST /api/collections/slugs/import', options)
  await eventually(async () => {
    const [{ looks }] = await api.sql(`select count(*) as looks from pg_stat_activity
      where datname = current_database() and query like '%pg_try_advisory_xact_lock_shared%' and pid <> pg_backend_pid()`)
    assert.ok(Number(looks) > 0)
  })
  await held.query('rollback')
  await held.end()
  const [made, again] = await Promise.all([first, second])
  assert.deepEqual([made.status, made.body.created], [200, 2], made.text)
  assert.deepEqual([again.status, again.text, again.headers.get('idempotency-replayed')], [200, made.text, 'true'])
  assert.equal(await count('slugs', `slug in ('i1', 'i2')`), 2)
})

test('a request waits no longer than a statement may take', async () => {
  const held = await openConnection({ url: api.databaseUrl })
  await held.query(`begin; insert into slugs values ('stuck')`)
  const patient = await startServer({ on: api, config: { 'api.statement_timeout': 1 } })
  const options = { as: ann.token, json: { slug: 'stuck' }, headers: keyed(newKey()) }
  const first = api.call('POST /api/collections/slugs', options)
  await eventually(async () => {
    const waiting = await count('pg_stat_activity', `datname = current_database() and wait_event_type = 'Lock'`)
    assert.equal(waiting, 1)
  })
  const { status, body } = await patient.call('POST /api/collections/slugs', options)
  assert.deepEqual([status, body.message], [409, 'still in progress'])
  await held.query('rollback')
  await held.end()
  assert.equal((await first).status, 201)
  await patient.stop()
})

test('a refresh whose answer was lost is answered again with its key', async () => {
  const eve = await api.signUp('eve@x.test')
  const key = randomUUID()
  const refresh = (server: InProcessServer, refreshToken: string, headers = keyed(key)) =>
    server.call('POST /api/auth/refresh', { json: { refreshToken }, headers })
  assert.equal((await refresh(api, eve.refreshToken, keyed('short'))).status, 400)
  const first = await refresh(api, eve.refreshToken)
  assert.equal(first.status, 200)
  const again = await refresh(other, eve.refreshToken)
  assert.deepEqual([again.status, again.text, again.headers.get('idempotency-replayed')], [200, first.text, 'true'])
  assert.equal(again.headers.get('cache-control'), 'no-store')
  assert.equal((await refresh(api, eve.refreshToken, keyed(randomUUID()))).status, 401, 'another key')
  assert.equal((await refresh(api, eve.refreshToken, {} as never)).status, 401, 'no key')
  const next = await refresh(api, first.body.refreshToken)
  assert.equal(next.status, 200, 'another token with the same key is another request')
  assert.notEqual(next.body.refreshToken, first.body.refreshToken)
  const [{ found }] = await api.sql(`select count(*) as found from svc.kept_answers where account = 'user ' || $1`, [
    eve.user.id,
  ])
  assert.equal(Number(found), 2)
  await api.sql(`update svc.kept_answers set expires_at = now() - interval '1 second' where account = 'user ' || $1`, [
    eve.user.id,
  ])
  assert.equal((await refresh(api, first.body.refreshToken)).status, 401, 'after 60 seconds')
  await api.call('POST /api/auth/logout', { json: { refreshToken: next.body.refreshToken } })
})

test('browsers may send the key and read whether an answer is a replay', async () => {
  const preflight = await api.call('OPTIONS /api/collections/notes', {
    headers: { origin: 'https://app.example', 'access-control-request-method': 'POST' },
  })
  assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /\bIdempotency-Key\b/)
  const { headers } = await api.call('GET /api/collections/notes', { headers: { origin: 'https://app.example' } })
  assert.match(headers.get('access-control-expose-headers') ?? '', /\bIdempotency-Replayed\b/)
})

test('a function cannot pretend that its call was made before', async () => {
  const { status } = await api.call('POST /api/rpc/claims_so', { as: ann.token, json: {}, headers: keyed(newKey()) })
  assert.equal(status, 409)
})
