import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { before, test } from 'node:test'
import { oauthApplication } from '../../../test/fakes/oauth-application.ts'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
let ann: { token: string; user: { id: string } }

before(async () => {
  api = await startServer({ config: { 'auth.oauth_provider.enabled': true } })
  await api.sql(`
    create table notes (id int generated always as identity primary key, title text not null, secret text default 'hush');
    create table other (id int primary key);
    create function large(n int) returns text language plpgsql as $$
      begin insert into notes (title) values ('large'); return repeat('x', n); end $$;
  `)
  ann = await api.signUp('ann@x.test')
})

const newKey = () => `key-${randomUUID()}`
const keyed = (key: string) => ({ 'idempotency-key': key })
const count = async (table: string, where = 'true') =>
  Number((await api.sql(`select count(*) as n from ${table} where ${where}`))[0].n)
const create = (key: string, as?: string, server = api) =>
  server.call('POST /api/collections/notes', { ...(as && { as }), json: { title: 'n' }, headers: keyed(key) })
const isReplayed = ({ headers }: { headers: Headers }) => headers.get('idempotency-replayed') === 'true'

const countsAreRight = async () => {
  const [{ wrong }] = await api.sql(`
    with kept as (
      select account, bytes from svc.kept_answers union all select '', bytes from svc.kept_answers
      union all select account, -bytes from svc.kept_bytes)
    select count(*) as wrong from (select from kept group by account having sum(bytes) <> 0) w`)
  assert.equal(Number(wrong), 0)
}

test('an answer is not given again to a caller who has lost the rights it needs', async () => {
  const key = newKey()
  const first = await create(key, ann.token)
  assert.equal(first.body.secret, 'hush')
  const done = { code: 409, error: 'already_done', message: 'already done' }
  for (const [lost, back] of [
    [
      'revoke select on notes from svc_authenticated; grant select (id, title) on notes to svc_authenticated',
      'grant select on notes to svc_authenticated',
    ],
    ['revoke insert on notes from svc_authenticated', 'grant insert on notes to svc_authenticated'],
    ['revoke all on notes from svc_authenticated', 'grant all on notes to svc_authenticated'],
  ] as const) {
    await api.sql(lost)
    await eventually(async () => assert.deepEqual((await create(key, ann.token)).body, done, lost))
    await api.sql(back)
    await eventually(async () => assert.equal((await create(key, ann.token)).text, first.text))
  }
  assert.equal(await count('notes'), 1)
})

test('a key of one caller is nothing to another, not even to one with fewer rights of the same account', async () => {
  const made = async (json: object) =>
    (await api.call('POST /api/auth/api-keys', { as: ann.token, json: { name: randomUUID(), ...json } })).body
  const [full, narrow, readonly] = [
    await made({ scope: 'readwrite' }),
    await made({ scope: 'readwrite', allowedTables: ['other'] }),
    await made({ scope: 'readonly' }),
  ]
  const key = newKey()
  assert.equal((await create(key, full.key)).status, 201)
  assert.deepEqual([(await create(key, narrow.key)).status, (await create(key, readonly.key)).status], [403, 403])
  const anns = await create(key, ann.token)
  assert.deepEqual([anns.status, isReplayed(anns)], [201, false])
  const visitors = await create(key)
  assert.deepEqual([visitors.status, isReplayed(visitors)], [201, false])
  assert.ok(isReplayed(await create(key, full.key)))
})

test('tokens of one OAuth grant are one caller, those of another grant another', async () => {
  const app = await oauthApplication(api, ann.user.id)
  const { access, refresh } = await app.granted(ann.token)
  const second = await app.granted(ann.token)
  const key = newKey()
  const first = await create(key, access)
  assert.equal(first.status, 201, first.text)
  const next = (await app.refresh(refresh)).body.access_token
  const again = await create(key, next)
  assert.deepEqual([again.text, isReplayed(again)], [first.text, true])
  assert.equal(isReplayed(await create(key, second.access)), false)
  const accounts = await api.sql(`select distinct account from svc.kept_answers where account <> $1`, [
    `user ${ann.user.id}`,
  ])
  assert.ok(
    accounts.every(({ account }) => account.startsWith('network ')),
    'grants and keys count as their account',
  )
})

test('of an answer over 1 MB is kept only that the call was made', async () => {
  const before = await count('notes')
  const call = (n: number, key: string) =>
    api.call('POST /api/rpc/large', { as: ann.token, json: { n }, headers: keyed(key) })
  const [small, large] = [newKey(), newKey()]
  assert.equal((await call(1_000_000, small)).status, 200)
  assert.ok(isReplayed(await call(1_000_000, small)))
  assert.equal((await call(1_100_000, large)).status, 200)
  const again = await call(1_100_000, large)
  assert.deepEqual(
    [again.status, again.body.error, again.body.message],
    [409, 'already_done', 'already done; the answer was too large to keep'],
  )
  assert.equal(await count('notes'), before + 2)
})

test('what an account keeps is bounded: the oldest go first, then writes are refused before they happen', async () => {
  const bob = await api.signUp('bob@x.test')
  const account = `user ${bob.user.id}`
  const [old, young] = [newKey(), newKey()]
  assert.equal((await create(old, bob.token)).status, 201)
  await api.sql(`update svc.kept_answers set created_at = now() - interval '11 minutes' where account = $1`, [account])
  assert.equal((await create(young, bob.token)).status, 201)
  // As if there were 32 MB more.
  await api.sql(`insert into svc.kept_bytes values ($1, 99, 33554432)`, [account])
  const before = await count('notes')
  const refused = await create(newKey(), bob.token)
  assert.deepEqual([refused.status, refused.body.error], [429, 'rate_limited'], refused.text)
  assert.equal(await count('notes'), before)
  assert.equal(await count('svc.kept_answers', `account = '${account}'`), 1, 'the old one made no room')
  assert.equal((await create(young, bob.token)).status, 201)
  assert.equal(
    (await api.call('POST /api/collections/notes', { as: bob.token, json: { title: 'no key' } })).status,
    201,
  )
  assert.equal((await create(newKey(), ann.token)).status, 201, 'others are not affected')
  await api.sql(`delete from svc.kept_bytes where slot = 99`)
  await countsAreRight()
})

test('the oldest answers make room for new ones', async () => {
  const eve = await api.signUp('eve@x.test')
  const keys = Array.from({ length: 5 }, newKey)
  for (const key of keys) assert.equal((await create(key, eve.token)).status, 201)
  await api.sql(`update svc.kept_answers set created_at = now() - interval '11 minutes' where account = $1`, [
    `user ${eve.user.id}`,
  ])
  const small = await startServer({ on: api, config: { 'api.idempotency_size': '1KB' } })
  await api.sql(`update svc.kept_answers set created_at = now() - interval '11 minutes'`)
  assert.equal((await create(newKey(), eve.token, small)).status, 201)
  assert.ok((await count('svc.kept_answers')) <= 3)
  const full = await create(newKey(), eve.token, small)
  await countsAreRight()
  assert.ok(full.status === 201 || full.status === 429)
  let last = full
  for (let i = 0; i < 4; i++) last = await create(newKey(), eve.token, small)
  assert.equal(last.status, 429)
  await small.stop()
})

test('visitors are counted by network', async () => {
  await api.sql(`insert into svc.kept_bytes values ('network 127.0.0.0/24', 99, 33554432)`)
  assert.equal((await create(newKey())).status, 429)
  await api.sql(`delete from svc.kept_bytes where slot = 99`)
  assert.equal((await create(newKey())).status, 201)
})

test('neither keys nor answers can be read in the database, and no caller reaches the table', async () => {
  const key = newKey()
  await api.call('POST /api/collections/notes', {
    as: ann.token,
    json: { title: 'my very secret title' },
    headers: keyed(key),
  })
  const [{ dump }] = await api.sql(`select string_agg(k::text, ' ') || string_agg(encode(answer, 'escape'), ' ') as dump
    from svc.kept_answers k`)
  for (const secret of [key, 'my very secret title']) {
    assert.ok(!dump.includes(secret) && !dump.includes(Buffer.from(secret).toString('hex')), secret)
  }
  for (const statement of [
    'select * from svc.kept_answers',
    'select * from svc.kept_bytes',
    `select svc.claim_answer('', '\\x00', 1, 'x', 1, 1)`,
    `select svc.keep_answer('', '\\x00', 'x', null, '\\x00', '\\x00', 1)`,
  ]) {
    await assert.rejects(
      api.sql(`set role svc_authenticated; ${statement}`),
      /permission denied|only the server/,
      statement,
    )
  }
})

test('answers go with the account, and after their time', async () => {
  const dan = await api.signUp('dan@x.test')
  const account = `user ${dan.user.id}`
  await create(newKey(), dan.token)
  await api.call('POST /api/auth/refresh', { json: { refreshToken: dan.refreshToken }, headers: keyed(randomUUID()) })
  assert.equal(await count('svc.kept_answers', `account = '${account}'`), 2)
  await api.sql('delete from svc.sessions where user_id = $1', [dan.user.id])
  assert.equal(await count('svc.kept_answers', `account = '${account}'`), 1)
  await api.sql('delete from svc.users where id = $1', [dan.user.id])
  assert.equal(await count('svc.kept_answers', `account = '${account}'`), 0)
  await countsAreRight()

  const key = newKey()
  await create(key, ann.token)
  await api.sql(
    `update svc.kept_answers set created_at = now() - interval '25 hours', expires_at = now() - interval '1 hour'`,
  )
  const anew = await create(key, ann.token)
  assert.deepEqual([anew.status, isReplayed(anew)], [201, false], 'tried anew after its time')
  await api.app.cleanups['kept_answer_cleanup']?.()
  assert.equal(await count('svc.kept_answers'), 1)
  assert.equal(await count('svc.kept_bytes', `account = '${account}'`), 0, 'nor is its counter left')
  await countsAreRight()
})

test('many at once with one key over two processes are one write', async () => {
  const other = await startServer({ on: api })
  for (let round = 0; round < 3; round++) {
    const key = newKey()
    const before = await count('notes')
    const answers = await Promise.all(Array.from({ length: 16 }, (_, i) => create(key, ann.token, i % 2 ? api : other)))
    assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1, answers[0]?.text)
    assert.equal(answers.filter(isReplayed).length, 15)
    assert.equal(await count('notes'), before + 1)
  }
  await countsAreRight()

  const { refreshToken } = await api.signUp('fay@x.test')
  const headers = keyed(randomUUID())
  const refreshes = await Promise.all(
    Array.from({ length: 10 }, (_, i) =>
      (i % 2 ? api : other).call('POST /api/auth/refresh', { json: { refreshToken }, headers }),
    ),
  )
  assert.deepEqual([...new Set(refreshes.map(({ status, text }) => `${status} ${text}`))].length, 1)
  assert.equal(refreshes[0]?.status, 200)
  await other.stop()
})
