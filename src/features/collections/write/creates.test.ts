import assert from 'node:assert/strict'
import { before, beforeEach, test } from 'node:test'
import { type Answer, eventually, type InProcessServer, startServer } from '../../../../test/kit/kit.ts'
import { openConnection } from '../../../db/protocol/driver.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table items (id bigint generated always as identity primary key, name text unique, n int check (n < 100),
      parent bigint references items deferrable initially deferred);
    create table owned (id bigint generated always as identity primary key, owner uuid not null default svc.uid(), n int);
    alter table owned enable row level security;
    create policy own on owned using (owner = svc.uid());
    grant all on owned to svc_authenticated;
  `)
})
beforeEach(() => api.sql('truncate items restart identity; truncate owned; truncate svc.change_log, svc.change_packs'))

const post = (table: string, json: object, as?: string) =>
  api.call(`POST /api/collections/${table}`, as === undefined ? { json } : { json, as })
const burst = (bodies: readonly object[], table = 'items', as?: string): Promise<Answer[]> =>
  Promise.all(bodies.map((body) => post(table, body, as)))
const names = (count: number, prefix = 'item') => Array.from({ length: count }, (_, i) => ({ name: `${prefix} ${i}` }))
const count = async (what: string) => Number((await api.sql(`select count(${what}) as n from items`))[0].n)

test('creates that arrive together are each answered with their own row, and each is logged', async () => {
  const bodies = names(60)
  const answers = await burst(bodies)
  assert.deepEqual(
    answers.map(({ status, body }) => [status, body.name]),
    bodies.map(({ name }) => [201, name]),
  )
  assert.equal(new Set(answers.map(({ body }) => body.id)).size, 60)
  const logged = await api.sql(`select pk, record from svc.changes order by (record ->> 'id')::int`)
  assert.deepEqual(
    logged,
    await api.sql(`select jsonb_build_object('id', id) as pk, to_jsonb(items) as record from items order by id`),
  )
})

test('rows that are refused are refused alone', async () => {
  await api.sql(`insert into items (name) values ('taken')`)
  for (let round = 0; round < 5; round++) {
    const bad = [{ name: 'taken' }, { name: `large ${round}`, n: 100 }, { name: `no number ${round}`, n: 'x' }]
    const orphan = { name: `orphan ${round}`, parent: 4711 }
    const good = names(30, `round ${round}`).map((body, n) => ({ ...body, n }))
    const answers = await burst([...good.slice(0, 15), ...bad, orphan, ...good.slice(15)])
    const statuses = answers.map(({ status }) => status)
    assert.deepEqual(statuses.slice(15, 19), [409, 422, 400, 400])
    assert.deepEqual([...statuses.slice(0, 15), ...statuses.slice(19)], Array(30).fill(201))
    assert.equal(await count('*'), 1 + 30 * (round + 1))
  }
  assert.equal(Number((await api.sql('select count(*) as n from svc.changes'))[0].n), 150)
})

test('a create does not wait for the lock that another row needs', async () => {
  const held = await openConnection({ url: api.databaseUrl })
  try {
    await held.query(`begin; insert into items (name) values ('held')`)
    const waiting = Array.from({ length: 3 }, () => post('items', { name: 'held' }))
    for (let round = 0; round < 5; round++) {
      const answers = await burst(names(30, `round ${round}`))
      assert.ok(answers.every(({ status }) => status === 201))
    }
    await held.query('commit')
    assert.deepEqual(
      (await Promise.all(waiting)).map(({ status }) => status),
      [409, 409, 409],
    )
  } finally {
    await held.end()
  }
})

test('creates of several callers at once are each made and logged as theirs', async () => {
  const [ann, bob] = await Promise.all([api.signUp('ann@x.test'), api.signUp('bob@x.test')])
  for (let round = 0; round < 5; round++) {
    const bodies = Array.from({ length: 20 }, (_, n) => ({ n }))
    const answers = await Promise.all([ann, bob].map(({ token }) => burst(bodies, 'owned', token)))
    for (const [i, { user }] of [ann, bob].entries()) {
      for (const { status, body } of answers[i] ?? []) assert.deepEqual([status, body.owner], [201, user.id])
    }
  }
  const [{ wrong }] = await api.sql(`select count(*) as wrong from owned o where not exists (
    select from svc.changes c where c.pk = jsonb_build_object('id', o.id) and c.actor ->> 'id' = o.owner::text)`)
  assert.equal(Number(wrong), 0)
})

test('creates whose clients left while they waited never happen', async () => {
  const held = await openConnection({ url: api.databaseUrl })
  const waiting = async () =>
    Number(
      (
        await api.sql(`select count(*) as n from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`)
      )[0].n,
    )
  try {
    await held.query('begin; lock table items in exclusive mode')
    const leave = new AbortController()
    const left = names(60).map((json) =>
      api.call('POST /api/collections/items', { json, signal: leave.signal }).catch(() => undefined),
    )
    await eventually(async () => assert.ok((await waiting()) > 0))
    leave.abort()
    await Promise.all(left)
    await eventually(async () => assert.equal(await waiting(), 0))
    await held.query('commit')
  } finally {
    await held.end()
  }
  assert.equal((await post('items', { name: 'last' })).status, 201)
  assert.equal(await count('*'), 1)
})
