import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createDatabase, postgresMajor, withoutInvokerViews } from '../../../test/kit/cluster.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { poolOn } from '../../../test/kit/pool.ts'
import { openConnection } from '../protocol/driver.ts'
import { ensureSchemaTrigger } from './trigger.ts'

/** Undone when the test ends, before the kit stops the cluster; last in, first out. */
function undoing(t: TestContext) {
  const cleanups: (() => Promise<unknown>)[] = []
  t.after(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup()
  })
  return cleanups
}

async function emptyDatabase(cleanups: (() => Promise<unknown>)[]): Promise<string> {
  const { url, drop } = await createDatabase('embedded')
  cleanups.push(drop)
  return url
}

async function openPoolOn(url: string, cleanups: (() => Promise<unknown>)[]) {
  const db = await poolOn(url)
  cleanups.push(() => db.stop())
  return db
}

async function connectionTo(url: string, cleanups: (() => Promise<unknown>)[]) {
  const client = await openConnection({ url })
  cleanups.push(() => client.end())
  return client
}

test('DDL from outside is seen by every server, long before its next poll', async () => {
  const one = await startServer()
  const two = await startServer({ on: one })
  const bothSee = (expected: RegExp, seconds = 20) =>
    eventually(
      async () => {
        for (const api of [one, two]) assert.match((await api.call('GET /api/schema')).text, expected)
      },
      { seconds },
    )
  await one.sql('create table notes (id int primary key)')
  await bothSee(/"public\.notes"/)
  await one.sql('alter table notes add column body text')
  await bothSee(/"name":"body"/)
  await one.sql('alter table notes enable row level security')
  await bothSee(/"rlsEnabled":true/)
  await one.sql('drop table notes; create table others ()')
  await bothSee(/^(?!.*"public\.notes").*"public\.others"/)
  await one.sql('revoke all on others from svc_anon, svc_authenticated')
  await bothSee(/^(?!.*"public\.others")/)
})

test('where no event trigger helps, the first request for a new table finds it', async () => {
  const api = await startServer()
  await api.sql('drop event trigger svc_schema_ddl; drop event trigger svc_schema_drop')
  assert.equal((await api.call('GET /api/collections/unheard')).status, 404)
  await api.sql('create table unheard (id int primary key)')
  assert.equal((await api.call('GET /api/collections/unheard')).status, 200)
})

test('what changes the schema notifies, what does not is silent', async (t) => {
  const cleanups = undoing(t)
  const url = await emptyDatabase(cleanups)
  await ensureSchemaTrigger(await openPoolOn(url, cleanups))
  const listener = await connectionTo(url, cleanups)
  const client = await connectionTo(url, cleanups)
  const plain = `plain_${process.pid}`
  await client.query(`create role ${plain} nologin; grant create on schema public to ${plain}`)
  cleanups.push(() => client.query(`drop owned by ${plain}; drop role ${plain}`))
  const payloads: string[] = []
  listener.on('notification', ({ payload }) => void payloads.push(payload ?? ''))
  await listener.query('listen svc_schema')

  // Notifications arrive in the order of commits, so those before the marker were caused by the statement.
  const isHeard = async (statement: string): Promise<boolean> => {
    payloads.length = 0
    await client.query(statement)
    await client.query(`select pg_notify('svc_schema', 'end')`)
    await eventually(() => assert.ok(payloads.includes('end')))
    return payloads.includes('')
  }
  const loud = [
    'create table a (id serial primary key, n text)',
    'alter table a add column m int',
    `comment on table a is 'x'`,
    'grant select on a to svc_anon',
    'grant select (n) on a to svc_anon',
    'revoke select on a from svc_anon',
    'create policy p on a using (true)',
    'drop policy p on a',
    'create index by_n on a (n)',
    'drop index by_n',
    'create view v as select * from a',
    ...(withoutInvokerViews ? [] : ['alter view v set (security_invoker = true)']),
    'create materialized view mv as select * from a',
    `create function f() returns int language sql as 'select 1'`,
    'drop function f()',
    `create type mood as enum ('x')`,
    `alter type mood add value 'y'`,
    'create extension pg_trgm',
    'drop extension pg_trgm',
    'create table made as select 1 as x',
    'select 1 as x into selected',
    `set role ${plain}; create table theirs (); reset role`,
    'drop table made, selected, theirs',
  ]
  for (const statement of loud) assert.equal(await isHeard(statement), true, statement)
  const silent = [
    'create temporary table t (id serial primary key, n text default 1 check (n <> 1::text))',
    'create index on t (n)',
    'alter table t drop column n',
    'drop table t',
    'create temporary table made as select 1 as x',
    'refresh materialized view mv',
    'create table svc.own (id serial primary key, n text default 1)',
    'alter table svc.own add column m int',
    'drop table svc.own',
    `insert into a (n) values ('x')`,
    'truncate a',
    'begin; create table undone (); rollback',
  ]
  // PostgreSQL 14 does not say of defaults that are dropped whose they were, so it is loud once more than it need be.
  const isKnown = (statement: string): boolean => postgresMajor >= 15 || !/\bdrop\b/.test(statement)
  for (const statement of silent.filter(isKnown)) assert.equal(await isHeard(statement), false, statement)
})

test('several servers may start at once', async (t) => {
  const cleanups = undoing(t)
  const url = await emptyDatabase(cleanups)
  const pools = await Promise.all(Array.from({ length: 4 }, () => openPoolOn(url, cleanups)))
  assert.deepEqual(await Promise.all(pools.map(ensureSchemaTrigger)), [undefined, undefined, undefined, undefined])
})

test('a role that may not create event triggers gets a warning, unless they are there', async (t) => {
  const cleanups = undoing(t)
  const url = await emptyDatabase(cleanups)
  const superuser = await connectionTo(url, cleanups)
  const modest = `modest_${process.pid}`
  await superuser.query(`create role ${modest} login; grant create, usage on schema svc to ${modest}`)
  cleanups.push(() => superuser.query(`drop owned by ${modest}; drop role ${modest}`))
  const db = await openPoolOn(asUser(url, modest), cleanups)
  assert.match((await ensureSchemaTrigger(db)) ?? '', /^the database role may not create event triggers: /)
  assert.equal(await ensureSchemaTrigger(await openPoolOn(url, cleanups)), undefined)
  assert.equal(await ensureSchemaTrigger(db), undefined)
})

const asUser = (url: string, user: string): string => url.replace(/^(\w+:\/\/)[^@/]*@/, `$1${user}@`)
