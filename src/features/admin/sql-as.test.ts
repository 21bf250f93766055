import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`
  create table notes (id int primary key, owner uuid, title text);
  alter table notes enable row level security;
  create policy own on notes using (owner = nullif(current_setting('svc.user_id', true), '')::uuid);
  create table secrets (id int primary key);
  revoke all on secrets from svc_anon, svc_authenticated`)
const ana = await api.signUp('ana@x.test')
await api.sql(
  `insert into notes values (1, '${ana.user.id}', 'of ana'), (2, null, 'of none'); insert into secrets values (1)`,
)
const run = (json: object, as = 'admin') => api.call('POST /api/admin/sql', { as, json })
const first = async (json: object) => {
  const { status, body } = await run(json)
  assert.equal(status, 200, JSON.stringify(body))
  return body.rows[0]?.[0]
}
const asAna = { as: { user_id: ana.user.id } }

test('with all, each statement has its result, command and time', async () => {
  const query = `create temp table t (n int); insert into t select generate_series(1, 3); select * from t; -- end`
  const { body } = await run({ query, all: true })
  assert.deepEqual(
    body.results.map(({ command, columns, rows, rowCount }: Record<string, unknown>) => ({
      command,
      columns,
      rows,
      rowCount,
    })),
    [
      { command: 'CREATE TABLE', columns: [], rows: [], rowCount: 0 },
      { command: 'INSERT', columns: [], rows: [], rowCount: 3 },
      { command: 'SELECT', columns: ['n'], rows: [[1], [2], [3]], rowCount: 3 },
    ],
  )
  for (const { durationMs } of body.results) assert.equal(typeof durationMs, 'number')
  assert.equal((await run({ query: 'select 1', all: true })).body.results.length, 1)
  assert.deepEqual((await run({ query: '-- nothing', all: true })).body.results, [])
  assert.deepEqual((await run({ query: 'select 1; select 2' })).body.rows, [[2]])
})

test('the limits of an answer are those of all its results together', async () => {
  const query = 'select generate_series(1, 6000); select generate_series(1, 6000); select 1'
  for (const mode of [{}, { read_only: true }]) {
    const { body } = await run({ query, all: true, ...mode })
    assert.deepEqual(
      body.results.map(({ rowCount, message }: Record<string, unknown>) => [rowCount, message]),
      [
        [6000, undefined],
        [4000, 'the result was cut after 10000 rows'],
        [0, 'the result was cut after 10000 rows'],
      ],
    )
  }
})

test('read-only SQL cannot write, and not leave its transaction', async () => {
  assert.equal(await first({ query: 'select count(*) from notes', read_only: true }), 2)
  for (const query of [
    'insert into notes values (9)',
    'select 1; delete from notes',
    `set transaction_read_only = off; delete from notes`,
    `select set_config('transaction_read_only', 'off', false); delete from notes`,
    'set session characteristics as transaction read write; delete from notes',
    'commit; delete from notes',
    'rollback; begin read write; delete from notes; commit',
    `do $$ begin commit; delete from notes; end $$`,
    'select 1 /* ; */; end; delete from notes',
    `copy notes to program 'cat'`,
    `copy (select 1) to '/tmp/x'`,
    'create table made ()',
    `prepare transaction 'x'`,
  ]) {
    const { status } = await run({ query, read_only: true })
    assert.equal(status, 400, query)
  }
  const [{ count }] = await api.sql('select count(*) from notes')
  assert.equal(count, '2')
})

test('as a caller it sees what the caller sees, and stays on the login of callers', async () => {
  assert.equal(await first({ query: 'select count(*) from notes', ...asAna }), 1)
  assert.equal(await first({ query: 'select count(*) from notes', as: { anonymous: true } }), 0)
  assert.equal(await first({ query: 'select current_user', as: { anonymous: true } }), 'svc_anon')
  for (const query of [
    'reset role; select count(*) from secrets',
    `select set_config('role', 'none', false); select * from secrets`,
    'set session authorization default; select * from secrets',
    'reset all; reset role; select * from svc.users',
    `set role postgres; select 1`,
    `select pg_read_file('/etc/passwd')`,
  ]) {
    for (const write of [true, false]) {
      const { status, body } = await run({ query, ...asAna, write })
      assert.equal(status, 400, `${query} ${JSON.stringify(body)}`)
    }
  }
  assert.equal((await run({ query: 'select 1', as: { user_id: crypto.randomUUID() } })).status, 404)
  assert.equal((await run({ query: 'select 1', as: {} })).status, 400)
  assert.equal((await run({ query: 'select 1', write: true })).status, 400)
})

test('as a caller it only reads, unless it is to write; both are audited with both', async () => {
  const query = `update notes set title = 'changed'`
  const refused = await run({ query, ...asAna })
  assert.deepEqual([refused.status, refused.body.message], [403, 'this impersonation may only read'])
  const { body } = await run({ query, ...asAna, write: true })
  assert.equal(body.rowCount, 1)
  const { items } = (await api.call('GET /api/admin/audit?action=sql.execute&limit=1', { as: 'admin' })).body
  assert.equal(items[0].user_id, ana.user.id)
  assert.equal(items[0].impersonated_by, 'admin')
  assert.deepEqual(items[0].new_values, { query, as: asAna.as, write: true })
})

test('dry_run is the header by another name, also of all results', async () => {
  const { body } = await run({ query: 'delete from notes; select count(*) from notes', dry_run: true, all: true })
  assert.deepEqual(
    body.dry_run.answer.results.map(({ command }: { command: string }) => command),
    ['DELETE', 'SELECT'],
  )
  assert.equal(body.dry_run.answer.results[1].rows[0][0], 0)
  const [{ count }] = await api.sql('select count(*) from notes')
  assert.equal(count, '2')
})

test('as a caller a dry run says what the caller would change, and changes nothing', async () => {
  await api.sql(`
    create table parts (id int primary key, note int references notes deferrable initially deferred);
    select svc.watch('public.notes'); select svc.watch('public.parts')`)
  const tried = { ...asAna, write: true, dry_run: true }
  const { status, body } = await run({ query: `update notes set title = 'tried'`, ...tried })
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(body.dry_run.answer.rowCount, 1, 'the row of ana, not the other')
  assert.deepEqual(
    body.dry_run.changes.map(({ table, action, key }: Record<string, unknown>) => [table, action, key]),
    [['notes', 'update', 1]],
  )
  assert.equal(JSON.stringify(await api.sql('select title from notes order by id')).includes('tried'), false)
  const deferred = await run({ query: 'insert into parts values (1, 77)', ...tried })
  assert.match(deferred.body.message, /violates foreign key constraint/)
  for (const query of [
    'commit; delete from notes',
    `update notes set title = 'kept'; end; select 1`,
    'reset role; select * from secrets',
    `do $$ begin commit; end $$`,
    'select * from svc.dry_run_guard',
  ])
    assert.equal((await run({ query, ...tried })).status, 400, query)
  // Who only reads would be refused, and is in the dry run.
  const reading = await run({ query: `update notes set title = 'x'`, ...asAna, dry_run: true })
  assert.deepEqual([reading.status, reading.body.message], [403, 'this impersonation may only read'])
  const seen = await run({ query: 'select count(*) from notes', ...asAna, dry_run: true })
  assert.deepEqual([seen.body.dry_run.answer.rows, seen.body.dry_run.changes], [[[1]], []])
  const header = { 'dry-run': 'true' }
  const json = { query: 'delete from notes', ...asAna, write: true }
  const byHeader = await api.call('POST /api/admin/sql', { as: 'admin', json, headers: header })
  assert.equal(byHeader.body.dry_run.answer.rowCount, 1)
  assert.deepEqual(await api.sql('select count(*)::int as n from notes'), [{ n: '2' }])
})

test('a locked dashboard runs SQL that reads', async () => {
  const locked = await startServer({ on: api, config: { 'admin.dashboard_locked': true } })
  const json = { password: 'correct horse battery staple', client: 'dashboard' }
  const { token } = (await locked.call('POST /api/admin/auth', { json })).body
  const at = async (json: object) => (await locked.call('POST /api/admin/sql', { as: token, json })).status
  assert.equal(await at({ query: 'select 1' }), 200)
  assert.equal(await at({ query: 'delete from notes' }), 423)
  assert.equal(await at({ query: 'delete from notes', dry_run: true }), 423)
  assert.equal(await at({ query: 'select 1', ...asAna, write: true }), 423)
  assert.equal(await at({ query: 'select 1', ...asAna }), 200)
  assert.equal(await at({ query: 'begin; delete from notes; commit' }), 400)
})
