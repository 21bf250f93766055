import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'
import type { AdminRole } from '../../core/identity.ts'

/** A table owner's code says here which role it ran as. */
const ROLES = `
  create schema told; grant usage on schema told to public;
  create table told.ran (by text, what text);
  grant insert on told.ran to public;
  create function told.here(what text) returns void language plpgsql as $$ begin
    insert into told.ran values (current_user || case when (select rolsuper from pg_roles where rolname = current_user) then ' super' else '' end, what);
  exception when read_only_sql_transaction then null; end $$;`

let api: InProcessServer
let tokens: Record<AdminRole, string>
before(async () => {
  api = await startServer({ config: { 'ai.embedding_provider': 'hash' } })
  const add = async (role: AdminRole) => {
    const json = { email: `${role}@x.test`, password: 'a password of their own', role }
    assert.equal((await api.call('POST /api/admin/admins', { as: 'admin', json })).status, 201)
    const { email, password } = json
    return (await api.call('POST /api/admin/auth', { json: { email, password } })).body.token as string
  }
  tokens = { owner: await add('owner'), operator: await add('operator'), viewer: await add('viewer') }
  await api.sql(`${ROLES}
    create table papers (id int primary key, title text, secret text);
    alter table papers enable row level security;
    insert into papers values (1, 'one', 'a'), (2, 'two', 'b');
    create function on_paper() returns trigger language plpgsql as $$ begin perform told.here('trigger'); return new; end $$;
    create trigger on_paper before insert or update on papers for each row execute function on_paper();
    create function reads() returns int language sql stable as $$ select count(*)::int from papers $$;
    create function writes() returns int language sql as $$ insert into papers values (99); select 1 $$;
    create function hidden_write() returns int language plpgsql stable as $$ begin return writes(); end $$;
    create function definer_write() returns int language plpgsql stable security definer as $$ begin return writes(); end $$;
    create function who_am_i() returns text language sql stable as $$ select session_user::text || ' ' || current_user::text $$;
    create function become() returns text language plpgsql stable as $$ begin perform set_config('role', 'postgres', true); return current_user; end $$`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/papers', { as: tokens.owner })).body.totalItems, 2),
  )
})

const lesser = ['operator', 'viewer'] as const
const run = (role: AdminRole, query: string) => api.call('POST /api/admin/sql', { as: tokens[role], json: { query } })
const ran = async () => {
  const rows = await api.sql('delete from told.ran returning by, what')
  return rows.map(({ by, what }) => `${what} as ${by}`)
}
const neverSuper = async () => {
  const lines = await ran()
  assert.ok(lines.length > 0, 'the code ran')
  for (const line of lines) assert.doesNotMatch(line, /super|postgres/)
}

test('SQL of operators and viewers is read by a login of their own that is no superuser and has nothing of svc', async () => {
  const users = new Set<string>()
  for (const role of lesser) {
    const { status, body, text } = await run(
      role,
      'select session_user, current_user, (select rolsuper from pg_roles where rolname = session_user), (select count(*) from papers)',
    )
    assert.equal(status, 200, text)
    const [[session, current, isSuper, papers]] = body.rows
    assert.deepEqual([session === current, isSuper, papers], [true, false, 2])
    users.add(session)
    for (const query of [
      'select * from svc.users',
      'select svc.require_log_key(null)',
      'select value from svc.settings',
      `select pg_read_file('/etc/passwd')`,
      'select * from pg_authid',
    ]) {
      const refused = await run(role, query)
      assert.deepEqual([refused.status, refused.body.error], [400, 'sql_error'], query)
      assert.match(refused.body.message, /permission denied/)
    }
  }
  assert.equal(users.size, 2, 'each role has its own')
  assert.equal((await run('owner', 'select rolsuper from pg_roles where rolname = current_user')).body.rows[0][0], true)
})

test('no SQL of operators and viewers writes, whatever it is dressed as', async () => {
  const before = await api.sql('select * from papers order by id')
  for (const role of lesser) {
    for (const query of [
      `insert into papers values (3)`,
      `with x as (insert into papers values (3) returning id) select * from x`,
      'explain analyze delete from papers',
      'select * into taken from papers',
      'create table taken (id int)',
      'select writes()',
      'select hidden_write()',
      'select definer_write()',
      'select id from papers for update',
      `select nextval('svc.change_log_id_seq')`,
      'begin; delete from papers; commit',
      'commit; delete from papers',
      'select 1; delete from papers',
      'select 1; set transaction read write; delete from papers',
      `do $$ begin delete from papers; end $$`,
      'call missing()',
      'set role postgres',
      'set session authorization postgres',
      'reset role; delete from papers',
      `select set_config('transaction_read_only', 'off', true), writes()`,
      `select set_config('default_transaction_read_only', 'off', false); select writes()`,
      `select set_config('role', 'postgres', false)`,
      `copy papers to program 'true'`,
      `listen svc_revocations`,
      `prepare transaction 'x'`,
      'lock table papers',
      'vacuum papers',
    ]) {
      const { status, body } = await run(role, query)
      assert.ok([400, 403].includes(status), `${query}: ${status} ${JSON.stringify(body)}`)
    }
    assert.deepEqual((await run(role, 'delete from papers')).body, {
      code: 403,
      error: 'insufficient_role',
      message: 'SQL of operators and viewers is read-only: what writes needs the role owner',
    })
    const two = await run(role, 'select 1; (select 2 as two)')
    assert.deepEqual([two.status, two.body.rows], [200, [[2]]], 'one statement after the other')
  }
  await ran()
  assert.deepEqual(await api.sql('select * from papers order by id'), before)
})

test('data routes: an owner and an operator read and write all rows as no superuser, a viewer reads', async () => {
  const write = (role: AdminRole, id: number) =>
    api.call('POST /api/collections/papers', { as: tokens[role], json: { id, title: role } })
  for (const role of ['owner', 'operator', 'viewer'] as const) {
    const list = await api.call('GET /api/collections/papers', { as: tokens[role] })
    assert.equal(list.body.totalItems >= 2, true, list.text)
    const { status, text } = await api.call('GET /api/collections/papers/1', { as: tokens[role] })
    assert.equal(status, 200, text)
    const graph = await api.call('POST /api/graphql', { as: tokens[role], json: { query: '{ papers { id } }' } })
    assert.ok(graph.body.data.papers.length >= 2, graph.text)
    const session = (await api.call('POST /api/rpc/who_am_i', { as: tokens[role], json: {} })).body
    assert.match(
      session,
      role === 'owner' ? /^svc_admin_writer\S* svc_admin_writer/ : /^svc_admin_reader\S* svc_admin_reader/,
    )
  }
  assert.equal((await write('owner', 10)).status, 201)
  assert.equal((await write('operator', 11)).status, 201)
  await neverSuper()
  const role = 'viewer'
  for (const [line, json] of [
    ['POST /api/collections/papers', { id: 12 }],
    ['PATCH /api/collections/papers/1', { title: 'x' }],
    ['DELETE /api/collections/papers/1'],
    ['POST /api/collections/papers/batch', { operations: [{ method: 'delete', id: 1 }] }],
    ['POST /api/graphql', { query: 'mutation { delete_papers(id: "1") { id } }' }],
  ] as const) {
    const { status, body } = await api.call(line, { as: tokens[role], ...(json && { json }) })
    assert.ok(status === 403 || body.errors, `${line}: ${status} ${JSON.stringify(body)}`)
  }
  assert.deepEqual(await api.sql('select count(*) as n from papers'), [{ n: '4' }])
  await api.sql('delete from papers where id > 2')
  await ran()
})

test('neither an operator nor a viewer has functions that write', async () => {
  const call = (role: AdminRole, name: string) => api.call(`POST /api/rpc/${name}`, { as: tokens[role], json: {} })
  for (const role of lesser) {
    assert.equal((await call(role, 'reads')).body, 2)
    for (const name of ['writes', 'hidden_write', 'definer_write']) {
      const { status, body } = await call(role, name)
      assert.deepEqual([status, body.error], [403, 'insufficient_role'], name)
    }
    assert.ok((await call(role, 'become')).status >= 400)
  }
  assert.ok((await call('owner', 'become')).status >= 400, 'the owner becomes no superuser either')
  assert.equal((await call('owner', 'writes')).body, 1)
  await api.sql('delete from papers where id > 2')
  await ran()
})

test('undo runs the code of table owners as no superuser, and reaches nothing else of svc', async () => {
  await api.sql(`
    create function on_undo() returns trigger language plpgsql as $$ begin
      perform told.here('undo');
      begin
        update svc.admins set role = 'owner';
        perform told.here('took over');
      exception when insufficient_privilege then perform told.here('refused');
      end;
      return new; end $$;
    create trigger on_undo before update on papers for each row execute function on_undo();
    alter table papers enable always trigger on_undo`)
  const change = await api.call('PATCH /api/collections/papers/1', {
    as: tokens.operator,
    json: { title: 'changed' },
    headers: { 'x-request-id': 'to-undo' },
  })
  assert.equal(change.status, 200, change.text)
  await ran()
  const undo = await api.call('POST /api/admin/undo', { as: tokens.operator, json: { request_id: 'to-undo' } })
  assert.equal(undo.status, 200, undo.text)
  const lines = await ran()
  assert.ok(
    lines.some((line) => /^refused as svc_undo/.test(line)),
    lines.join(),
  )
  for (const line of lines) assert.doesNotMatch(line, /super|postgres|took over/)
  await api.sql('drop trigger on_undo on papers')
  assert.equal(
    (await api.call('POST /api/admin/undo', { as: tokens.viewer, json: { request_id: 'to-undo' } })).status,
    403,
  )
})

test('explaining and the matrix of policies run the code of policies, types and domains as no superuser', async () => {
  await api.sql(`
    create function checked(v text) returns boolean language plpgsql as $$ begin perform told.here('domain'); return true; end $$;
    create domain checked_text as text check (checked(value));
    create function judged(v text) returns boolean language plpgsql as $$ begin perform told.here('policy'); return true; end $$;
    create table judged (id checked_text primary key, kind text);
    alter table judged enable row level security;
    insert into judged values ('a', 'x'), ('b', 'y');
    create policy by_code on judged using (judged(kind))`)
  await ran()
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/judged/a', { as: tokens.operator })).status, 200),
  )
  for (const json of [
    { table: 'judged', operation: 'select', id: 'a' },
    { table: 'judged', operation: 'insert', row: { id: 'c', kind: 'z' } },
    { table: 'judged', operation: 'select', id: 'gone' },
  ]) {
    const { status, text } = await api.call('POST /api/admin/rls/explain', { as: tokens.operator, json })
    assert.ok(status === 200 || status === 404, text)
  }
  const matrix = await api.call('POST /api/admin/rls/snapshot', { as: tokens.operator, json: {} })
  assert.equal(matrix.status, 200, matrix.text)
  const history = await api.call('GET /api/collections/judged/a/history', { as: tokens.operator })
  assert.equal(history.status, 200, history.text)
  await neverSuper()
})

test('vectors that an operator keeps filled are written as no superuser', async () => {
  await api.sql(`
    create table notes (id int primary key, body text, meaning real[]);
    create function on_note() returns trigger language plpgsql as $$ begin perform told.here('embedding'); return new; end $$;
    insert into notes values (1, 'a text'), (2, 'another');
    create trigger on_note before update on notes for each row execute function on_note()`)
  const json = { table: 'notes', columns: ['body'], vector_column: 'meaning' }
  assert.equal((await api.call('POST /api/admin/vector/embed', { as: tokens.viewer, json })).status, 403)
  await eventually(async () => {
    const { status, text } = await api.call('POST /api/admin/vector/embed', { as: tokens.operator, json })
    assert.equal(status, 202, text)
  })
  await eventually(async () =>
    assert.deepEqual(await api.sql('select count(*) as n from notes where meaning is null'), [{ n: '0' }]),
  )
  await neverSuper()
})

test('a watched table runs the casts of its types as no superuser, and as nothing that reaches the server', async () => {
  await api.sql(`do $$ begin create role type_maker; exception when duplicate_object then null; end $$;
    grant create on schema public to type_maker; grant usage on schema told to type_maker;
    set role type_maker;
    create type mood as enum ('glad', 'sad');
    create function mood_json(mood) returns json language plpgsql as $$ begin
      perform told.here('cast');
      begin
        perform key from svc.log_key;
        perform told.here('read the key');
      exception when insufficient_privilege then null;
      end;
      return '"told"';
    end $$;
    create cast (mood as json) with function mood_json(mood);
    create table moods (id int primary key, mood mood);
    create table parted (id int primary key, mood mood) partition by range (id);
    create table parted_1 partition of parted for values from (0) to (100);
    reset role;
    select svc.watch('moods'); select svc.watch('parted')`)
  await ran()
  await api.sql(`insert into moods values (1, 'glad'); update moods set mood = 'sad'; delete from moods`)
  await api.sql(`insert into parted values (1, 'glad')`)
  const lines = new Set(await ran())
  assert.deepEqual([...lines], ['cast as svc_logger'])
  const logged = await api.sql(`select action, record ->> 'mood' as mood, actor ->> 'kind' as by from svc.changes
    where table_name in ('moods', 'parted') order by id`)
  assert.deepEqual(
    logged.map(({ action, mood, by }) => [action, mood, by]),
    [
      ['create', 'told', 'system'],
      ['update', 'told', 'system'],
      ['delete', null, 'system'],
      ['create', 'told', 'system'],
    ],
  )
})

test('the export of a person runs the casts of types as no superuser, and names what it may not read', async () => {
  const { user } = await api.signUp('exported@x.test')
  await api.sql(`create table of_people (id int primary key, owner uuid references svc.users, mood mood);
    create schema closed; create table closed.of_people (id int primary key, owner uuid references svc.users)`)
  await api.sql(`insert into of_people values (1, $1, 'glad')`, [user.id])
  await ran()
  const exported = await eventually(async () => {
    const answer = await api.call(`GET /api/admin/users/${user.id}/export`, { as: tokens.owner })
    assert.deepEqual(answer.body.left_out, ['closed.of_people'], answer.text)
    return answer.body
  })
  assert.deepEqual(exported.tables['public.of_people'], [{ id: 1, owner: user.id, mood: 'told' }])
  await neverSuper()
})

test('policies of operators run no code as the server, and let callers run none that writes', async () => {
  await api.sql(`
    create function may_check(v text) returns boolean language plpgsql as $$ begin perform told.here('literal'); return true; end $$;
    create domain may_text as text check (may_check(value));
    create type may_pair as (a may_text, b int);
    create function may_write(t text) returns boolean language plpgsql as $$ begin perform told.here('policy'); return true; end $$;
    create function may_same(text, text) returns boolean language sql as $$ select true $$;
    create operator ==> (leftarg = text, rightarg = text, function = may_same)`)
  const make = (role: AdminRole, name: string, using: string) =>
    api.call('POST /api/admin/rls', { as: tokens[role], json: { table: 'papers', name, using } })
  const refusals = {
    'may_write(title)': 'the volatile function may_write(text)',
    "title ==> 'x'": 'the volatile function may_same(text,text)',
    "set_config('role', 'none', true) = 'x'": 'the volatile function set_config(text,text,boolean)',
    'exists (select from papers p where may_write(p.title))': 'the volatile function may_write(text)',
    "('(x,1)'::may_pair).b = 1": 'a literal of the type may_pair',
    "title = any ('{x}'::may_text[])": 'a literal of the type may_text[]',
  }
  for (const [using, what] of Object.entries(refusals)) {
    const { status, body } = await make('operator', 'theirs', using)
    assert.deepEqual(
      [status, body.error, body.message],
      [403, 'insufficient_role', `a policy with ${what} needs the role owner`],
      using,
    )
  }
  for (const line of await ran()) assert.doesNotMatch(line, /super|postgres/)
  const unknown = await make('operator', 'theirs', 'missing = 1')
  assert.deepEqual([unknown.status, unknown.body.error], [400, 'sql_error'])
  assert.equal((await make('viewer', 'theirs', 'true')).status, 403)
  assert.equal((await make('operator', 'theirs', "title like 'o%' and id = any ('{1,2}'::int[])")).status, 201)
  assert.equal((await make('owner', 'owners', 'may_write(title)')).status, 201)
  assert.deepEqual(await api.sql(`select policyname from pg_policies where tablename = 'papers' order by 1`), [
    { policyname: 'owners' },
    { policyname: 'theirs' },
  ])
  assert.equal((await api.call('DELETE /api/admin/rls/papers/owners', { as: tokens.operator })).status, 204)
})

test('jobs of operators call functions as the roles of requests', async () => {
  await api.sql(`create function told_by_job() returns void language plpgsql as $$ begin perform told.here('job'); end $$;
    grant execute on function told_by_job() to public`)
  await ran()
  const queue = (role: string) =>
    api.call('POST /api/admin/jobs', {
      as: tokens.operator,
      json: { type: 'sql', payload: { function: 'told_by_job', role } },
    })
  assert.equal((await queue('svc_authenticated')).status, 201)
  for (const role of ['postgres', 'svc_admin_writer', 'none']) assert.equal((await queue(role)).status, 403)
  await eventually(async () => assert.deepEqual(await ran(), ['job as svc_authenticated']))
})

test('a table that another role made is open to administrators too', async () => {
  await api.sql(`do $$ begin create role other_maker; exception when duplicate_object then null; end $$;
    grant create on schema public to other_maker;
    set role other_maker; create table theirs (id int primary key); insert into theirs values (1); reset role`)
  for (const role of ['owner', 'operator', 'viewer'] as const) {
    await eventually(async () => {
      const { status, text } = await api.call('GET /api/collections/theirs', { as: tokens[role] })
      assert.equal(status, 200, text)
    })
  }
})

test('rows found past policies by an index run the code of the table as no superuser', async () => {
  await api.sql(`create table texts (id int primary key, title text);
    alter table texts enable row level security;
    create policy seen on texts for select using (id < 3);
    insert into texts select n, 'word ' || n from generate_series(1, 9) n;
    create function spied(int) returns text language plpgsql immutable as $$ begin perform told.here('statistics'); return 'x'; end $$;
    create statistics on_code on (title || spied(1)), id from texts;
    do $$ begin create role text_maker; exception when duplicate_object then null; end $$;
    grant create, usage on schema public to text_maker; alter table texts owner to text_maker`)
  const index = { table: 'texts', method: 'fulltext' }
  await eventually(async () => {
    const { status, text } = await api.call('POST /api/admin/search/indexes', { as: tokens.owner, json: index })
    assert.ok(status < 300, text)
  })
  const user = (await api.signUp('finder@x.test')).token
  await eventually(async () => {
    const { body } = await api.call('GET /api/collections/texts?search=word', { as: user })
    assert.equal(body.totalItems, 2)
    assert.ok((await ran()).includes('statistics as svc_finder'))
  })
  await api.call('GET /api/collections/texts?search=word', { as: user })
  await neverSuper()
})

test('the log of a caller who sees no whole row runs the casts of types as no superuser', async () => {
  await api.sql(`create table hidden_moods (id int primary key, mood mood, secret text default 's');
    revoke select on hidden_moods from svc_anon, svc_authenticated; grant select (id) on hidden_moods to svc_authenticated`)
  const as = (await api.signUp('moody@x.test')).token
  await ran()
  let id = 0
  await eventually(async () => {
    const made = await api.call('POST /api/collections/hidden_moods', { as, json: { id: ++id, mood: 'glad' } })
    assert.equal(made.status, 201, made.text)
  })
  assert.deepEqual([...new Set(await ran())], ['cast as svc_finder'])
  const [{ record }] = await api.sql(`select record from svc.changes where table_name = 'hidden_moods'`)
  assert.deepEqual(JSON.parse(record), { id, mood: 'told', secret: 's' })
})
