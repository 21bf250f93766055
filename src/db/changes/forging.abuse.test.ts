import assert from 'node:assert/strict'
import { before, beforeEach, test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table profiles (id int primary key, name text);
    create table payments (id int primary key, amount int, note text);
    create table secrets (id int primary key, owner text, body text);
    alter table secrets enable row level security;
    create policy own on secrets using (owner = current_setting('svc.user_id', true));
    create function a_profile() returns profiles language sql as $$ insert into profiles values (1, 'x') on conflict (id) do update set name = 'x' returning * $$;
    create function profile_and_payment() returns profiles language sql as $$
      insert into payments values (8, 1) on conflict (id) do nothing;
      insert into profiles values (8, 'y') returning * $$;
    create function a_payment() returns payments language sql as $$ select 7, 1000, 'made up' $$;
    create function old_payment() returns payments language sql volatile as 'select * from payments where id = 1';
    create function pay(id int) returns payments language sql as $$ insert into payments values (pay.id, 5) returning * $$;
    create function pay_carefully(id int) returns payments language plpgsql as $$
    declare made payments;
    begin
      begin
        insert into payments values (pay_carefully.id, 6) returning * into made;
      exception when unique_violation then null;
      end;
      return made;
    end $$;
    create function a_secret(id int) returns secrets language sql as $$ select a_secret.id, 'me', 'x' $$;
    create function hide(id int) returns secrets language sql security definer as $$ insert into secrets values (hide.id, 'somebody', 'x') returning * $$;
    create function direct(text_of_call text) returns text language plpgsql as $$
    begin
      execute text_of_call;
      return 'done';
    end $$;
  `)
  await api.sql(`insert into payments values (1, 10); insert into secrets values (1, 'somebody', 'x')`)
})
beforeEach(() => api.sql('truncate svc.change_log, svc.change_packs'))

const logged = () =>
  api.sql('select action, table_name, pk::text as pk, actor::text as actor from svc.changes order by id')
const notify = (name: string, table: string, action: string, json: object = {}) =>
  api.call(`POST /api/rpc/${name}`, {
    json,
    headers: { 'content-type': 'application/json', 'x-notify-table': table, 'x-notify-action': action },
  })

test('a notice about another table, a row nobody wrote, or one that was there before is not logged', async () => {
  for (const [name, table, action, json] of [
    ['a_profile', 'payments', 'create', {}],
    // The payment was really made, but a row of another type does not show which.
    ['profile_and_payment', 'payments', 'create', {}],
    ['a_payment', 'payments', 'create', {}],
    ['a_payment', 'payments', 'update', {}],
    ['a_payment', 'payments', 'delete', {}],
    ['old_payment', 'payments', 'create', {}],
    ['old_payment', 'payments', 'update', {}],
    ['old_payment', 'payments', 'delete', {}],
    ['a_secret', 'secrets', 'delete', { id: 1 }],
    ['a_secret', 'secrets', 'delete', { id: 99 }],
    ['hide', 'secrets', 'create', { id: 2 }],
  ] as const) {
    const { status, text } = await notify(name, table, action, json)
    assert.equal(status, 200, `${name}: ${text}`)
    assert.deepEqual(await logged(), [], `${name} as ${action} of ${table}`)
  }
})

test('a true notice is logged, also of a row written inside a savepoint', async () => {
  await notify('pay', 'payments', 'create', { id: 2 })
  await notify('pay_carefully', 'payments', 'create', { id: 3 })
  const actor = '{"kind": "anonymous"}'
  assert.deepEqual(await logged(), [
    { action: 'create', table_name: 'payments', pk: '{"id": 2}', actor },
    { action: 'create', table_name: 'payments', pk: '{"id": 3}', actor },
  ])
})

test('code that runs as a caller cannot write the log, nor ask what the server may read', async () => {
  const about = `'payments', 1, '{"kind":"admin"}', 'request'`
  const one = `${about}, 'c', '1', '{}'::json, null`
  const several = `${about}, 'c', array['1'], array['{}'::json], null`
  for (const statement of [
    `insert into svc.change_log (shape, table_oid, action) values (1, 'payments'::regclass, 'c')`,
    `insert into svc.change_shapes values (1, 'payments'::regclass, 'public', 'payments', '[]', '{}')`,
    `select * from svc.changes`,
    `select * from svc.changes_of('payments'::regclass, '1')`,
    `select svc.keep_shape('payments'::regclass)`,
    `select svc.append_creates('', ${about}, '{id}', 0, 2, '{"id": [1, 2]}')`,
    `select svc.append_change('', ${one})`,
    `select svc.append_change(null, ${one})`,
    `select svc.append_change((select key from svc.log_key), ${one})`,
    `select svc.append_changes('', ${several})`,
    `select svc.append_changes(null, ${several})`,
    `select svc.append_changes((select key from svc.log_key), ${several})`,
    `select svc.whole_row('', 'secrets', '{"id": 1}')`,
    `select svc.whole_row(null, 'secrets', '{"id": 1}')`,
    `select * from svc.log_key`,
    `select svc.require_log_key('x')`,
    `select svc.shape_to_log('x', 'payments', -1, '')`,
    `select nextval('svc.change_log_id_seq')`,
  ]) {
    const { status } = await api.call('POST /api/rpc/direct', { json: { text_of_call: statement } })
    assert.equal(status, 403, statement)
  }
  assert.deepEqual(await logged(), [])
})

test('code that changes who the session says it is does not change who the log says wrote', async () => {
  await api.sql(`select svc.watch('profiles'); delete from profiles`)
  const write = `insert into profiles values (10) on conflict (id) do update set name = 'again'`
  const claim = (name: string, value: string) => `perform set_config('${name}', '${value}', true);`
  const victim = '00000000-0000-4000-8000-000000000001'
  await api.sql('truncate svc.change_log, svc.change_packs')
  for (const claims of [
    claim('svc.actor', `{"kind":"user","id":"${victim}"}`),
    claim('svc.actor', `${'0'.repeat(64)} {"kind":"user","id":"${victim}"}`),
    claim('svc.actor', '') + claim('svc.user_id', victim),
  ]) {
    await api.call('POST /api/rpc/direct', { json: { text_of_call: `do $do$ begin ${claims} ${write}; end $do$` } })
  }
  const actors = (await logged()).map((row) => (row as { actor: string }).actor)
  assert.deepEqual(actors, Array(3).fill('{"kind": "unknown"}'))
  await api.call('POST /api/rpc/direct', { json: { text_of_call: write } })
  assert.equal((await logged()).at(-1)?.['actor'], '{"kind": "anonymous"}')
})

test('the image of a change is whole, whatever its writer may read', async () => {
  await api.sql("create table partial (id int primary key, title text, hidden text default 'h')")
  await eventually(async () => assert.equal((await api.call('GET /api/collections/partial')).status, 200))
  await api.sql('revoke select on partial from svc_anon; grant select (id, title) on partial to svc_anon')
  await eventually(async () => assert.equal((await api.call('GET /api/collections/partial')).status, 200))
  const done = [
    await api.call('POST /api/collections/partial', { json: { id: 1, title: 'a' } }),
    await api.call('PATCH /api/collections/partial/1', { json: { title: 'b' } }),
    await api.call('POST /api/collections/partial/batch', {
      json: {
        operations: [
          { method: 'create', body: { id: 2 } },
          { method: 'update', id: 2, body: { title: 'c' } },
          { method: 'delete', id: 2 },
        ],
      },
    }),
    await api.call('DELETE /api/collections/partial/1'),
  ]
  assert.deepEqual(
    done.map(({ status }) => status),
    [201, 200, 200, 204],
  )
  assert.deepEqual(done[0]?.body, { id: 1, title: 'a' })
  const images = (
    await api.sql(`select jsonb_build_array(record, old_record)::text as both from svc.changes order by id`)
  ).map((change) => JSON.parse(String(change['both'])))
  const row = (id: number, title: string | null) => ({ id, title, hidden: 'h' })
  assert.deepEqual(images, [
    [row(1, 'a'), null],
    [row(1, 'b'), row(1, 'a')],
    [row(2, null), null],
    [row(2, 'c'), row(2, null)],
    [null, row(2, 'c')],
    [null, row(1, 'b')],
  ])
})
