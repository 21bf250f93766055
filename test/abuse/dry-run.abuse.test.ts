import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { eventually } from '../kit/eventually.ts'
import { type InProcessServer, type SignedUp, startServer } from '../kit/kit.ts'

let api: InProcessServer
let ana: SignedUp
let bo: SignedUp
before(async () => {
  api = await startServer()
  ana = await api.signUp('ana@x.test')
  bo = await api.signUp('bo@x.test')
  await api.sql(`
    create table notes (id int primary key, owner uuid, title text, secret text);
    create table parts (id int primary key, note int references notes on delete cascade, name text);
    create table diary (id int generated always as identity primary key, what text);
    create table late (id int primary key, note int references notes deferrable initially deferred);
    create table people (id int primary key, boss int, name text);
    alter table notes enable row level security;
    create policy own on notes using (owner::text = current_setting('svc.user_id', true));
    revoke select on notes from svc_authenticated;
    grant select (id, owner, title) on notes to svc_authenticated;
    revoke all on diary from svc_anon, svc_authenticated;
    alter table people enable row level security;
    create function leads(id int) returns boolean language sql stable security definer as
      $$ select exists (select from people p where p.id = leads.id and p.name in ('ana', 'an')) $$;
    create policy team on people using (boss is null or leads(boss));
    create function note_written() returns trigger language plpgsql security definer as $$
      begin insert into diary (what) values (tg_op); return null; end $$;
    create trigger diary after insert or update or delete on notes for each row execute function note_written();
    select svc.watch('parts'); select svc.watch('diary'); select svc.watch('notes'); select svc.watch('people');
    create function add_part(id int, note int) returns int language plpgsql as $$
      begin insert into parts values (add_part.id, add_part.note, 'by a function'); return add_part.id; end $$;
    create function pretend(who uuid) returns void language plpgsql security definer as $$
      begin update notes set title = 'pretended'; perform set_config('svc.user_id', who::text, true); end $$;
    create function wait_locked() returns void language sql as $$ select pg_advisory_lock(42) $$`)
  await api.sql(`insert into notes values (1, $1, 'mine', 's1'), (2, $2, 'yours', 's2')`, [ana.user.id, bo.user.id])
  await api.sql(`insert into parts values (1, 1, 'a'), (2, 1, 'b'); insert into people values (1, null, 'ana')`)
  await api.sql('truncate diary; delete from svc.change_log')
  await api.app.describe()
})

const dry = { 'dry-run': 'true' }
const state = () =>
  api.sql(`
  select (select json_agg(n order by id)::text from notes n) as notes, (select json_agg(p order by id)::text from parts p) as parts,
    (select count(*) from diary) as diary, (select count(*) from late) as late, (select count(*) from svc.change_log) as log`)
/** Whatever was tried, nothing has changed. */
async function unchanged<T>(work: () => Promise<T>): Promise<T> {
  const before = await state()
  const result = await work()
  assert.deepEqual(await state(), before)
  return result
}

test('a create is answered as it would have been, with what it changes', () =>
  unchanged(async () => {
    const { status, body } = await api.call('POST /api/collections/parts', {
      as: ana.token,
      json: { id: 3, note: 1, name: 'c' },
      headers: dry,
    })
    assert.equal(status, 200)
    assert.deepEqual(body, {
      dry_run: {
        status: 201,
        answer: { id: 3, note: 1, name: 'c' },
        changes: [
          {
            table: 'parts',
            action: 'create',
            key: 3,
            changes: { id: { old: null, new: 3 }, note: { old: null, new: 1 }, name: { old: null, new: 'c' } },
          },
        ],
      },
    })
  }))

test('triggers and cascades show, hidden columns do not, and a table that may not be read has no name', () =>
  unchanged(async () => {
    const patched = await api.call('PATCH /api/collections/notes/1', {
      as: ana.token,
      json: { title: 'new', secret: 'told' },
      headers: dry,
    })
    assert.equal(patched.status, 200, patched.text)
    assert.deepEqual(patched.body.dry_run.changes, [
      { table: 'notes', action: 'update', key: 1, changes: { title: { old: 'mine', new: 'new' } } },
      { other: true },
    ])
    const deleted = await api.call('DELETE /api/collections/notes/1', { as: ana.token, headers: dry })
    assert.deepEqual([deleted.body.dry_run.status, deleted.body.dry_run.answer], [204, null])
    const told = deleted.body.dry_run.changes
    assert.deepEqual(
      told
        .map((change: { table?: string; action?: string; key?: number }) => [change.table, change.action, change.key])
        .sort(),
      [
        [undefined, undefined, undefined],
        ['notes', 'delete', 1],
        ['parts', 'delete', 1],
        ['parts', 'delete', 2],
      ].sort(),
    )
    assert.ok(!deleted.text.includes('s1') && !deleted.text.includes('diary'))
  }))

test('a refusal is the ordinary refusal', () =>
  unchanged(async () => {
    const taken = await api.call('POST /api/collections/parts', { json: { id: 1 }, headers: dry })
    assert.deepEqual([taken.status, taken.body.error, taken.body.dry_run], [409, 'unique_violation', undefined])
    const hidden = await api.call('PATCH /api/collections/notes/2', {
      as: ana.token,
      json: { title: 'x' },
      headers: dry,
    })
    assert.equal(hidden.status, 404)
    const late = await api.call('POST /api/collections/late', { json: { id: 1, note: 99 }, headers: dry })
    assert.deepEqual([late.status, late.body.error], [400, 'foreign_key_violation'])
    const operations = [
      { method: 'create', body: { id: 7, note: 1 } },
      { method: 'create', body: { id: 1, note: 1 } },
    ]
    const batch = await api.call('POST /api/collections/parts/batch', { json: { operations }, headers: dry })
    assert.deepEqual([batch.status, batch.body.data.operation.message], [409, 'operation[1]'])
  }))

test('batches, imports, functions and mutations are tried too', () =>
  unchanged(async () => {
    const operations = [
      { method: 'create', body: { id: 7, note: 1 } },
      { method: 'update', id: 7, body: { name: 'seven' } },
    ]
    const batch = await api.call('POST /api/collections/parts/batch', { json: { operations }, headers: dry })
    assert.deepEqual([batch.status, batch.body.dry_run.answer.length, batch.body.dry_run.changes.length], [200, 2, 2])
    const csv = { body: 'id,note,name\n8,1,x\n9,1,y\n', headers: { 'content-type': 'text/csv', ...dry } }
    const imported = await api.call('POST /api/collections/parts/import', csv)
    assert.deepEqual(imported.body.dry_run.answer, { created: 2, updated: 0, skipped: 0, dry_run: false })
    assert.equal(imported.body.dry_run.changes.length, 2)
    const byQuery = await api.call('POST /api/collections/parts/import?dry_run=true', {
      ...csv,
      headers: { 'content-type': 'text/csv' },
    })
    assert.deepEqual(byQuery.body, { created: 2, updated: 0, skipped: 0, dry_run: true })
    const called = await api.call('POST /api/rpc/add_part', { as: ana.token, json: { id: 5, note: 1 }, headers: dry })
    assert.deepEqual([called.body.dry_run.answer, called.body.dry_run.changes[0].key], [5, 5])
    const query = 'mutation { insert_parts(objects: [{id: 6, note: 1}]) { affected_rows } }'
    const mutated = await api.call('POST /api/graphql', { as: ana.token, json: { query }, headers: dry })
    assert.deepEqual(mutated.body.data, { insert_parts: { affected_rows: 1 } })
    assert.equal(mutated.body.extensions.dry_run.changes[0].key, 6)
    const asked = await api.call('POST /api/graphql', { json: { query: '{ parts { id } }' }, headers: dry })
    assert.deepEqual(asked.body, { data: { parts: [{ id: 1 }, { id: 2 }] } })
  }))

test('a function that plays another user shows what its caller may see', () =>
  unchanged(async () => {
    const { body } = await api.call('POST /api/rpc/pretend', { as: ana.token, json: { who: bo.user.id }, headers: dry })
    const seen = body.dry_run.changes.map(({ table, key }: { table?: string; key?: number }) => [table, key])
    assert.deepEqual(seen, [
      ['notes', 1],
      [undefined, undefined],
    ])
  }))

test('a lock that a function takes for its session ends with the dry run', async () => {
  assert.equal((await api.call('POST /api/rpc/wait_locked', { as: ana.token, headers: dry })).status, 200)
  await eventually(async () => {
    const [{ free }] = await api.sql('select pg_try_advisory_lock(42) as free')
    assert.equal(free, 't')
  })
  await api.sql('select pg_advisory_unlock(42)')
})

test('policies that read their own table show rows that are there, and no images', () =>
  unchanged(async () => {
    const made = await api.call('POST /api/collections/people', {
      as: ana.token,
      json: { id: 2, boss: 1, name: 'bo' },
      headers: dry,
    })
    assert.deepEqual(
      made.body.dry_run.changes.map(({ key }: { key: number }) => key),
      [2],
    )
    const renamed = await api.call('PATCH /api/collections/people/1', {
      as: ana.token,
      json: { name: 'an' },
      headers: dry,
    })
    assert.deepEqual(renamed.body.dry_run.changes[0].changes, {
      id: { new: 1 },
      boss: { new: null },
      name: { new: 'an' },
    })
  }))

test('a token limited to tables learns nothing of others', async () => {
  const key = await api.call('POST /api/auth/api-keys', {
    as: ana.token,
    json: { name: 'k', scope: 'readwrite', allowedTables: ['notes'] },
  })
  await unchanged(async () => {
    const { body } = await api.call('DELETE /api/collections/notes/1', { as: key.body.key, headers: dry })
    assert.deepEqual(
      body.dry_run.changes.map((change: { table?: string }) => change.table ?? change),
      ['notes', { other: true }],
    )
  })
})

test('routes that write otherwise refuse it, and so is another value', async () => {
  for (const [line, options] of [
    ['POST /api/auth/register', { json: { email: 'new@x.test', password: 'long enough password' } }],
    ['POST /api/webhooks', { as: 'admin', json: { url: 'https://x.test' } }],
    ['POST /api/auth/logout', { json: { refreshToken: ana.refreshToken } }],
    ['GET /api/auth/oauth/google', {}],
  ] as const) {
    const { status, body } = await api.call(line, { ...options, headers: dry })
    assert.deepEqual([status, body.message], [400, 'dry run is not possible here'], line)
  }
  for (const value of ['yes', 'TRUE', '1', '']) {
    const { status, body } = await api.call('POST /api/collections/parts', {
      json: { id: 9 },
      headers: { 'dry-run': value },
    })
    assert.deepEqual([status, body.message], [400, 'Dry-Run must be true'], value)
  }
  assert.equal((await api.call('GET /api/collections/parts', { headers: dry })).status, 200)
  const preflight = await api.call('OPTIONS /api/collections/parts', {
    headers: { origin: 'https://x.test', 'access-control-request-method': 'POST' },
  })
  assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /Dry-Run, Idempotency-Key/)
})

const adminSql = (query: string) => api.call('POST /api/admin/sql', { as: 'admin', json: { query }, headers: dry })

test('admin SQL of several statements is tried whole', () =>
  unchanged(async () => {
    const { status, body } = await adminSql(`
      create table made (id int); -- a comment; with a semicolon
      insert into parts values (20, 1, 'a;b'); /* one /* nested */ ; */
      do $x$ begin delete from parts where id = 1; end $x$;
      create function f() returns int begin atomic select 1; select case when true then 2 end; end;
      set session_replication_role = replica; set role svc_anon;
      select f() as two, count(*) from parts`)
    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual([body.dry_run.status, body.dry_run.answer.rows], [200, [[2, 2]]])
    assert.deepEqual(
      body.dry_run.changes.map(({ action, key }: { action: string; key: number }) => [action, key]),
      [
        ['create', 20],
        ['delete', 1],
      ],
    )
    assert.deepEqual(await api.sql(`select to_regclass('made') as made`), [{ made: null }])
    const [entry] = await api.sql(
      `select new_values from svc.audit_log where action = 'sql.execute' order by at desc limit 1`,
    )
    assert.match(entry.new_values, /"dry_run": true/)
  }))

test('no admin SQL leaves its dry run', () =>
  unchanged(async () => {
    await api.sql(
      `create or replace procedure ends() language plpgsql as $$ begin insert into parts values (40); commit; end $$`,
    )
    for (const query of [
      'insert into parts values (30); commit',
      'insert into parts values (30); rollback; insert into parts values (31)',
      'insert into parts values (30); rollback and chain; insert into parts values (31)',
      '/* c */ end; insert into parts values (31)',
      "insert into parts values (30); prepare transaction 'x'",
      'savepoint s; insert into parts values (30)',
      'set transaction isolation level serializable; insert into parts values (30)',
      'insert into parts values (30); set constraints all immediate',
      'insert into parts values (30); set constraints svc.svc_dry_run immediate',
      'call ends()',
      'do $$ begin insert into parts values (30); commit; end $$',
      "do $$ begin insert into parts values (30); execute 'commit'; end $$",
      "copy parts to program 'cat'",
      "copy (select 1) to '/tmp/svc-dry-run'",
      "select lo_export(1, '/tmp/x')",
      'alter table svc.dry_run_guard disable trigger all; insert into parts values (30)',
      'drop table svc.dry_run_guard; insert into parts values (30)',
      'insert into late values (1, 99)',
      'vacuum parts',
      'insert into parts values (1)',
      "insert into parts values (30); select 'x",
    ]) {
      const { status, body } = await adminSql(query)
      assert.deepEqual([status, body.error], [400, 'sql_error'], `${query}: ${JSON.stringify(body)}`)
    }
    await api.sql('drop procedure ends()')
  }))

test('changes beyond eight megabytes are not listed, and the answer says so', async () => {
  const rows = Array.from({ length: 10 }, (_, i) => `${500 + i},1,${'x'.repeat(900_000)}\n`)
  const request = {
    as: ana.token,
    body: `id,note,name\n${rows.join('')}`,
    headers: { 'content-type': 'text/csv', ...dry },
  }
  const { status, body } = await api.call('POST /api/collections/parts/import', request)
  assert.deepEqual([status, body.dry_run.changes.length, body.dry_run.truncated], [200, 9, true])
})

test('the first change of all is in the answer of a dry run of admin SQL', async () => {
  const fresh = await startServer()
  await fresh.sql(`create table firsts (id int primary key); select svc.watch('firsts')`)
  assert.deepEqual(await fresh.sql('select is_called from svc.change_log_id_seq'), [{ is_called: 'f' }])
  const json = { query: 'insert into firsts values (1)' }
  const { body } = await fresh.call('POST /api/admin/sql', { as: 'admin', json, headers: dry })
  assert.deepEqual(
    body.dry_run.changes.map(({ key }: { key: number }) => key),
    [1],
  )
})
