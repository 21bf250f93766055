import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutExtensions } from '../../../test/kit/cluster.ts'
import { eventually, startServer, type TestServer } from '../../../test/kit/kit.ts'
import { Script } from '../../db/script/script.ts'
import { createRunSql } from './run-sql.ts'

const api = await startServer()
const run = (query: unknown, on: TestServer = api) => on.call('POST /api/admin/sql', { as: 'admin', json: { query } })

test('a query answers columns, rows as arrays, their count and the time it took', async () => {
  const { status, body } = await run(`select g as n, 'x' as "Text" from generate_series(1, 2) g`)
  assert.equal(status, 200)
  assert.equal(typeof body.durationMs, 'number')
  assert.deepEqual(
    { ...body, durationMs: 0 },
    {
      columns: ['n', 'Text'],
      rows: [
        [1, 'x'],
        [2, 'x'],
      ],
      rowCount: 2,
      durationMs: 0,
    },
  )
})

const values: [expression: string, json: string][] = [
  ['9223372036854775807::bigint', '9223372036854775807'],
  ['123456789012345678901234567890.5', '123456789012345678901234567890.5'],
  [`'NaN'::numeric`, '"NaN"'],
  [`'-Infinity'::float8`, '"-Infinity"'],
  ['0.1::float4', '0.1'],
  ['1e300::float8', '1e+300'],
  ['true', 'true'],
  ['null', 'null'],
  [`'{"a":[1,2.50]}'::json`, '{"a":[1,2.50]}'],
  [`'{"b":1,"a":12345678901234567890}'::jsonb`, '{"a": 12345678901234567890, "b": 1}'],
  [`timestamptz '2026-01-02 03:04:05.678+02'`, '"2026-01-02T01:04:05.678+00:00"'],
  [`timestamp '2026-01-02 03:04:05'`, '"2026-01-02T03:04:05"'],
  [`'infinity'::timestamptz`, '"infinity"'],
  [`date '2026-01-02'`, '"2026-01-02"'],
  [`time '03:04:05'`, '"03:04:05"'],
  [`interval '1 day 2 hours'`, '"1 day 02:00:00"'],
  [`'\\x0aff'::bytea`, '"\\\\x0aff"'],
  [`array[1,null,3]`, '[1,null,3]'],
  [`array['a"b','{c}']`, '["a\\"b","{c}"]'],
  [`array[[1,2],[3,4]]`, '[[1,2],[3,4]]'],
  [`array[9007199254740993]`, '[9007199254740993]'],
  [`array['{"a":1}'::jsonb]`, '[{"a": 1}]'],
  [`'(1,two)'::pair`, '{"a":1,"b":"two"}'],
  [`array['(1,two)'::pair]`, '[{"a":1,"b":"two"}]'],
  [`'sad'::mood`, '"sad"'],
  [`5::positive`, '5'],
  [`int4range(1,5)`, '"[1,5)"'],
  [`'10.0.0.1'::inet`, '"10.0.0.1"'],
  [`row(1, 'x')`, '"(1,x)"'],
  [`'00000000-0000-0000-0000-000000000001'::uuid`, '"00000000-0000-0000-0000-000000000001"'],
]
test('values keep every digit and their kind', async () => {
  await run(
    `create type pair as (a int, b text); create type mood as enum ('sad'); create domain positive as int check (value > 0)`,
  )
  for (const [expression, json] of values) {
    const { text } = await run(`select ${expression} as v`)
    assert.equal(/"rows":\[\[(.*)\]\],"rowCount"/s.exec(text)?.[1], json, expression)
  }
})

test('geometry is GeoJSON and a vector an array of numbers', { skip: withoutExtensions }, async () => {
  const spatial = await startServer({ postgres: 'extensions' })
  await run('create extension if not exists postgis; create extension if not exists vector', spatial)
  const { body } = await run(
    `select 'SRID=4326;POINT(1 2)'::geometry, 'POINT(3 4)'::geography, '[1,2.5]'::vector, null::geometry`,
    spatial,
  )
  const point = (...coordinates: number[]) => ({ type: 'Point', coordinates })
  assert.deepEqual(body.rows, [[point(1, 2), point(3, 4), [1, 2.5], null]])
})

test('a write answers how many rows it changed; several statements answer the last result', async () => {
  const made = await run('create table t (id int primary key, v text); insert into t values (1), (2), (3)')
  assert.deepEqual({ ...made.body, durationMs: 0 }, { columns: [], rows: [], rowCount: 3, durationMs: 0 })
  assert.equal((await run(`update t set v = 'x' where id < 3`)).body.rowCount, 2)
  assert.deepEqual((await run(`delete from t where id = 3 returning id`)).body.rows, [[3]])
  assert.deepEqual((await run('select 1 as a; select 2 as b')).body.columns, ['b'])
  assert.deepEqual((await run('select 1; create table t2 ()')).body.rows, [])
  assert.deepEqual((await run('/* nothing */ ;')).body.rowCount, 0)
})

test('several statements are one transaction', async () => {
  await run('create table atomic (id int)')
  const failed = await run('insert into atomic values (1); select 1/0')
  assert.equal(failed.status, 400)
  assert.deepEqual(failed.body, { code: 400, error: 'sql_error', message: 'division by zero' })
  assert.deepEqual((await run('select * from atomic')).body.rows, [])
})

test('a missing or wrongly typed query is refused', async () => {
  for (const query of [undefined, null, '', '   ']) {
    assert.deepEqual((await run(query)).body, { code: 400, error: 'validation_failed', message: 'query is required' })
  }
  for (const query of [1, {}, ['select 1']]) assert.equal((await run(query)).status, 400)
  assert.equal((await run('select \0')).status, 400)
})

test('errors are told in the words of the database', async () => {
  assert.deepEqual((await run('selec 1')).body, {
    code: 400,
    error: 'sql_error',
    message: 'syntax error at or near "selec"',
  })
  assert.deepEqual((await run('select * from nowhere')).body.message, 'relation "nowhere" does not exist')
  assert.equal((await run('copy (select 1) to stdout')).status, 200)
  assert.equal((await run('copy pg_class from stdin')).status, 400)
})

test('nothing a query sets is there for the next one', async () => {
  await run('create table left_over (id int)')
  for (const query of [
    'begin; insert into left_over values (1)',
    'set role svc_anon',
    `set svc.user_id = 'mallory'`,
    `select set_config('svc.user_id', 'mallory', false)`,
    'listen left_over',
    'prepare left_over as select 1',
    'create temp table left_over_too (id int)',
    'set search_path = pg_temp',
    'select pg_advisory_lock(1)',
  ]) {
    assert.equal((await run(query)).status, 200, query)
  }
  const { body } = await run(`
    select (select count(*) from left_over), current_user = session_user, coalesce(current_setting('svc.user_id', true), ''),
           (select count(*) from pg_listening_channels()), (select count(*) from pg_prepared_statements),
           to_regclass('left_over_too'), pg_try_advisory_lock(1)`)
  assert.deepEqual(body.rows, [[0, true, '', 0, 0, null, true]])
})

test('a large result is cut, and says so', async () => {
  for (const query of [
    'select g from generate_series(1, 200000) g',
    'select 1; select g from generate_series(1, 200000) g',
  ]) {
    const { body } = await run(query)
    assert.equal(body.rows.length, 10_000)
    assert.equal(body.rowCount, 10_000)
    assert.equal(body.message, 'the result was cut after 10000 rows')
  }
  const wide = await run(`select repeat('x', 1000000) from generate_series(1, 100)`)
  assert.equal(wide.body.rowCount, 10)
  assert.equal(wide.body.message, 'the result was cut after 10 MB')
})

test('one value that does not fit is refused without being held in memory', async () => {
  const before = process.memoryUsage().rss
  const { status, body } = await run(`select repeat('x', 150000000)`)
  assert.equal(status, 400)
  assert.equal(body.message, 'the result has a value that is too large')
  assert.ok(process.memoryUsage().rss - before < 128 * 1024 * 1024)
})

test('a cut result does not undo the write that made it', async () => {
  await run('create table many (id int)')
  const { body } = await run('insert into many select generate_series(1, 20000) returning id')
  assert.equal(body.rowCount, 10_000)
  assert.deepEqual((await run('select count(*) from many')).body.rows, [[20_000]])
})

test('a table made here is a collection in the very next request', async () => {
  await run('create table fresh (id int primary key, title text)')
  const { status } = await api.call('GET /api/collections/fresh', { as: 'admin' })
  assert.equal(status, 200)
})

async function withTimeout(seconds: number, query: string, signal = new AbortController().signal): Promise<string> {
  const { Client } = (await import('pg')).default
  const openScript = async () => {
    const client = new Client({ connectionString: api.databaseUrl, application_name: 'short' })
    client.on('error', () => {})
    await client.connect()
    return new Script(client)
  }
  const db = {
    run: (_who: unknown, text: { render(): { text: string; values: unknown[] } }) => {
      const { text: sql, values: bound } = text.render()
      return api.sql(sql, bound)
    },
  }
  const runSql = createRunSql({
    db: db as never,
    openScript,
    openScriptAs: openScript,
    reloadSchema: async () => {},
    observe: () => {},
    schemas: ['public'],
    timeoutMs: seconds * 1000,
  })
  return runSql({ query, signal, mode: 'write', all: false, role: 'owner' }).then(
    ({ text }) => text,
    (error: Error) => error.message,
  )
}

/** PostgreSQL ends a backend a moment after its connection. */
const noBackendIsLeft = () =>
  eventually(async () => {
    const left = await api.sql(`select from pg_stat_activity where application_name = 'short'`)
    assert.equal(left.length, 0)
  })

test('a query that takes too long is stopped, in PostgreSQL too', async () => {
  assert.equal(await withTimeout(1, 'select pg_sleep(60)'), 'query timed out after 1 seconds')
  await noBackendIsLeft()
  assert.equal(
    await withTimeout(1, 'set statement_timeout = 0; select pg_sleep(60)'),
    'query timed out after 1 seconds',
  )
  await noBackendIsLeft()
})

test('a caller who goes away takes the query along', async () => {
  const caller = new AbortController()
  setTimeout(() => caller.abort(), 100)
  assert.doesNotMatch(await withTimeout(120, 'select pg_sleep(600)', caller.signal), /timed out/)
  await noBackendIsLeft()
})
