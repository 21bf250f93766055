import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authenticator } from '../../../../test/fakes/authenticator.ts'
import { rpc } from '../../../../test/kit/agents.ts'
import { startServer } from '../../../../test/kit/kit.ts'

const api = await startServer({ config: { 'agents.admin': true, 'history.access': 'opened' } })
await api
  .sql(`
  create table notes (id int primary key, title text, hidden text);
  insert into notes select i, 'n' || i, 'x' from generate_series(1, 1000) i;
  alter table notes enable row level security;
  create table parents (id int primary key);
  create function writes() returns int language sql as 'insert into notes (id) values (-1) returning id';
  create function reads_file() returns text language sql security definer stable as $$ select pg_read_file('/etc/passwd') $$;
  create function quiet() returns int language sql stable as 'select 1';
  create extension if not exists dblink;
`)
  .catch(async () => api.sql('select 1'))
const base = new URL(`http://localhost:${new URL(api.url).port}`)
const machine = (await api.app.issueAdminToken()) ?? ''
const http = await import('../../../http/out/post.ts')

type Answer = { status: number; text: string }
let id = 0
/** With the host name that the server calls itself by. */
const send = (body: object, headers: Record<string, string> = {}, query = ''): Promise<Answer> =>
  http.post(`${api.url}/api/admin/mcp${query}`, JSON.stringify(body), {
    host: base.host,
    authorization: `Bearer ${machine}`,
    ...headers,
  })
const call = async (name: string, args: object) => {
  const { status, text } = await send({
    jsonrpc: '2.0',
    id: ++id,
    method: 'tools/call',
    params: { name, arguments: args },
  })
  assert.equal(status, 200, text)
  const { result } = JSON.parse(text)
  return { isError: result.isError === true, content: result.structuredContent, text }
}

test('the operator reads, explains and is told the logs', async () => {
  assert.deepEqual((await call('sql', { query: 'select id, title from notes order by id limit 2' })).content, {
    columns: ['id', 'title'],
    rows: [
      ['1', 'n1'],
      ['2', 'n2'],
    ],
  })
  assert.equal((await call('sql', { query: 'select count(*), count(*) from notes;' })).content.rows[0][0], '1000')
  assert.equal(
    (await call('sql', { query: 'with a as (select quiet() as q) select * from a -- done' })).content.rows[0][0],
    '1',
  )
  const many = await call('sql', { query: 'select id from notes' })
  assert.equal(many.content.rows.length, 200)
  assert.equal(many.content.truncated, true)
  const { content } = await call('explain', { query: 'select * from notes where id = 1' })
  assert.equal(content.plan[0].Plan['Relation Name'], 'notes')
  assert.ok(Array.isArray((await call('logs', {})).content.entries))
  assert.ok(Array.isArray((await call('advise', {})).content.items))
})

const refused = [
  'select 1; drop table notes',
  'select 1; commit; drop table notes',
  `select 1 /* */; insert into notes values (-2, 'x')`,
  'insert into notes values (-3)',
  'with w as (insert into notes values (-4) returning id) select * from w',
  'with w as (delete from notes returning id) select * from w',
  'delete from notes',
  'select writes()',
  'select reads_file()',
  'set default_transaction_read_only = off',
  `select set_config('transaction_read_only', 'off', false)`,
  `select set_config('role', 'none', false), query_to_xml('select pg_read_file(''/etc/passwd'')', true, true, '')`,
  `select query_to_xml('select 1', true, true, '')`,
  `select U&"set\\005fconfig"('role', 'none', false)`,
  `copy notes to program 'id'`,
  `copy notes to '/tmp/x'`,
  'copy notes to stdout',
  `select pg_read_file('/etc/passwd')`,
  `select pg_read_binary_file('/etc/passwd')`,
  `select pg_ls_dir('/')`,
  `select pg_stat_file('/etc/passwd')`,
  `select lo_import('/etc/passwd')`,
  'select lo_create(0)',
  `select lo_from_bytea(0, 'x')`,
  'select lo_unlink(1)',
  `select lo_get(1)`,
  `select dblink_connect('host=127.0.0.1 dbname=postgres')`,
  `select * from dblink('dbname=postgres', 'select 1') as t(a int)`,
  'select pg_advisory_lock(1)',
  'select pg_try_advisory_lock(1)',
  `select nextval('svc.change_log_id_seq')`,
  'select pg_terminate_backend(pg_backend_pid())',
  'select * from svc.users',
  'select * from svc.settings',
  'select svc.uid(), key from svc.log_key',
  'select * from pg_authid',
  'select * from pg_shadow',
  'select * into made from notes',
  'create table made (id int)',
  'select * from notes for update',
  'do $$ begin delete from notes; end $$',
  `explain analyze delete from notes`,
  'call writes()',
  'begin',
  'rollback; delete from notes; begin',
  'show data_directory',
  'lock table notes',
  `notify x`,
  'vacuum',
  `prepare p as delete from notes`,
  'select 1) as q; delete from notes; select * from (select 1',
  'select 1) as svc_query, notes as (delete from notes returning 1',
]

test('read only is broken by none of the ways known', async () => {
  for (const query of refused) {
    for (const tool of ['sql', 'explain']) {
      const answer = await call(tool, { query })
      assert.equal(answer.isError, true, `${tool} ${query} → ${answer.text}`)
      assert.ok(!answer.text.includes('root:'), query)
    }
  }
  const [{ n }] = await api.sql('select count(*) as n from notes where id > 0')
  assert.equal(n, '1000')
  assert.equal((await api.sql('select from notes where id < 0')).length, 0)
  const [role] = await api.sql(
    `select rolsuper, rolcanlogin from pg_roles where rolname like 'svc\\_reader\\_%' and rolname like '%' || (select oid from pg_database where datname = current_database())`,
  )
  assert.deepEqual(role, { rolsuper: 'f', rolcanlogin: 'f' })
})

test('a slow query ends within seconds', async () => {
  const started = Date.now()
  const { isError } = await call('sql', { query: 'select count(*) from generate_series(1, 100000000000)' }).catch(
    () => ({ isError: true }),
  )
  assert.equal(isError, true)
  assert.ok(Date.now() - started < 15_000)
})

test('a migration is tried: its locks and rewritten rows, and nothing is left', async () => {
  const { content } = await call('migration_preview', {
    sql: `alter table notes alter column id type bigint; create index on notes (title); create table made (id int references parents)`,
  })
  assert.deepEqual(content.rewritten, [{ table: 'notes', rows: 1000 }], JSON.stringify(content))
  assert.ok(
    content.statements[0].locks.some(
      (lock: { table: string; mode: string }) => lock.table === 'notes' && lock.mode === 'AccessExclusiveLock',
    ),
  )
  const plain = await call('migration_preview', { sql: 'create index on notes (title)' })
  assert.deepEqual(
    plain.content.statements[0].locks.filter(({ table }: { table: string }) => table === 'notes'),
    [{ table: 'notes', mode: 'ShareLock', blocks: 'writes' }],
  )
  assert.deepEqual(plain.content.rewritten, [])
  const [column] = await api.sql(
    `select data_type from information_schema.columns where table_name = 'notes' and column_name = 'id'`,
  )
  assert.equal(column.data_type, 'integer')
  assert.equal((await api.sql(`select from pg_class where relname = 'made'`)).length, 0)
  assert.equal((await api.sql(`select from pg_roles where rolname like 'svc\\_preview%'`)).length, 0)
})

test('a migration that would stay, or do more than DDL, is refused', async () => {
  for (const text of [
    'create table made (id int); commit',
    'begin; create table made (id int); commit',
    'insert into notes values (-5)',
    'delete from notes',
    `copy notes to program 'id'`,
    'create function f() returns int language sql as $$ select 1 $$',
    `create table made as select pg_read_file('/etc/passwd') as f`,
    `create table made (a text default set_config('session_authorization', 'postgres', true)); alter table made add b int`,
    `alter table notes add column c text default pg_read_file('/etc/passwd')`,
    `alter table notes alter column title type text using query_to_xml('select pg_read_file(''/etc/passwd'')', true, true, '')::text`,
    `alter table notes alter column title type text using U&"set\\005fconfig"('session_authorization', session_user, false)`,
    'reset session authorization',
    'set role postgres',
    'create extension dblink',
    'drop table svc.users',
    'alter table svc.users add column x int',
    'truncate table svc.admin_tokens',
    'create index concurrently on notes (title)',
    'set constraints all immediate',
    'do $$ begin commit; end $$',
    'drop database postgres',
    'alter system set fsync = off',
    'create role evil superuser',
    'alter table notes owner to postgres',
  ]) {
    const { isError, text: answer } = await call('migration_preview', { sql: text })
    assert.equal(isError, true, `${text} → ${answer}`)
    assert.ok(!answer.includes('root:'), text)
  }
  assert.equal((await api.sql(`select from pg_class where relname = 'made'`)).length, 0)
})

test('a migration calls no code of other rights, and nothing that connects or makes large objects', async () => {
  for (const using of [
    'reads_file()',
    `dblink_connect('host=127.0.0.1 port=1 user=a password=' || title)`,
    `lo_from_bytea(0, 'x')::text`,
  ]) {
    const { text } = await call('migration_preview', {
      sql: `alter table notes alter column title type text using ${using}`,
    })
    assert.match(text, /permission denied for function/, using)
  }
})

test('a migration waits two seconds for a lock, and no longer', async () => {
  const { openConnection } = await import('../../../db/protocol/driver.ts')
  const other = await openConnection({ url: api.databaseUrl })
  await other.query('begin; lock table notes in access share mode')
  try {
    const { isError, text } = await call('migration_preview', { sql: 'alter table notes add column later int' })
    assert.equal(isError, true)
    assert.match(text, /lock timeout/)
  } finally {
    await other.end()
  }
})

test('the token alone is not enough: a second factor, or this machine', async () => {
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
  assert.equal((await send(ping)).status, 200)
  const as = (token: string) => send(ping, { authorization: `Bearer ${token}` })
  assert.equal((await as(await api.adminToken())).status, 403)
  const user = await api.signUp('ana@x.test')
  assert.equal((await as(user.token)).status, 401)
  const person = { email: 'ann@x.test', password: 'long enough password', role: 'owner' }
  await api.call('POST /api/admin/admins', { as: 'admin', json: person })
  const login = async (code?: string) =>
    (await api.call('POST /api/admin/auth', { json: { ...person, ...(code && { code }) } })).body.token
  const first = await login()
  assert.equal((await as(first)).status, 403)
  const { body } = await api.call('POST /api/admin/mfa/totp/enroll', { as: first })
  const phone = authenticator(body.uri)
  await api.call('POST /api/admin/mfa/totp/enroll/confirm', { as: first, json: { code: phone.code() } })
  const second = await login(phone.code(1))
  assert.equal((await as(second)).status, 200)
  await api.sql(
    `update svc.admin_tokens set second_factor_at = now() - interval '11 minutes' where second_factor_at is not null`,
  )
  const third = await startServer({ config: { 'agents.admin': true, 'server.public_base_url': base.origin }, on: api })
  const late = await http.post(`${third.url}/api/admin/mcp`, JSON.stringify(ping), {
    host: base.host,
    authorization: `Bearer ${second}`,
  })
  assert.equal(late.status, 403)
})

test('a foreign host, origin or parameter is refused; switched off it is not there', async () => {
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
  assert.equal((await send(ping, { host: 'evil.test' })).status, 403)
  assert.equal((await send(ping, { origin: 'https://evil.test' })).status, 403)
  assert.equal((await send(ping, { origin: base.origin })).status, 200)
  assert.equal((await send(ping, {}, '?x=1')).status, 400)
  const off = await startServer({ on: api })
  assert.equal((await rpc(off, undefined, 'ping', {}, '/api/admin/mcp')).status, 401)
  assert.equal((await off.call('POST /api/admin/mcp', { as: 'admin', json: ping })).status, 404)
})
