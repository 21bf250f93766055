import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer({ config: { 'database.max_conns': 4 } })
await api.sql(`
  create table secrets (id int primary key, owner text, note text);
  alter table secrets enable row level security;
  insert into secrets values (1, 'somebody', 'hidden');
  create function leave(out done int) language plpgsql as $$ begin
    perform set_config('app.tenant', 'of the caller before', false);
    perform set_config('default_transaction_read_only', 'on', false);
    perform pg_advisory_lock(4711);
    create temp table basket (item text) on commit preserve rows;
    insert into basket values ('of the caller before');
    execute 'listen gossip';
    done := 1;
  end $$;
  create function look() returns json language plpgsql as $$ begin
    return json_build_object('tenant', coalesce(current_setting('app.tenant', true), ''),
      'readOnly', current_setting('default_transaction_read_only'),
      'basket', to_regclass('basket') is not null, 'listens', (select count(*) from pg_listening_channels()),
      'locks', (select count(*) from pg_locks where locktype = 'advisory' and objid = 4711 and pid = pg_backend_pid()));
  end $$;
  create table orders (id int generated always as identity primary key, n int);
  create function on_order() returns trigger language plpgsql as $$ begin perform leave(); return new; end $$;
  create trigger on_order after insert on orders for each row execute function on_order();
  create function note_tenant() returns int language plpgsql as $$ begin perform leave(); return 1; end $$;
  create table drafts (id int generated always as identity primary key, label text, n int default note_tenant());
  create table letters (id int generated always as identity primary key, n int);
  alter table letters enable row level security;
  create policy reading on letters for select using (true);
  create policy writing on letters for insert with check (note_tenant() = 1);
  create function climb(to_role text) returns text language plpgsql as $$ begin
    if to_role is null then reset role; else execute format('set role %I', to_role); end if;
    return current_user || ' sees ' || (select count(*) from secrets);
  end $$;
`)
const CLEAN = { tenant: '', readOnly: 'off', basket: false, listens: 0, locks: 0 }

test('what a function left in its session is gone before anybody else flies there', async () => {
  for (let i = 0; i < 12; i++) {
    const { status, text } = await api.call('POST /api/rpc/leave')
    assert.equal(status, 200, text)
    const seen = await Promise.all(Array.from({ length: 6 }, () => api.call('POST /api/rpc/look')))
    for (const { body } of seen) assert.deepEqual(body, CLEAN)
  }
})

test('what triggers, defaults and policies left in their session is gone too, for writes and batches', async () => {
  for (const [table, body] of [
    ['orders', { n: 1 }],
    ['drafts', { label: 'x' }],
    ['letters', { n: 1 }],
  ] as const) {
    const operations = [{ method: 'create', body }]
    for (let i = 0; i < 6; i++) {
      const made = await api.call(`POST /api/collections/${table}`, { json: body })
      assert.equal(made.status, 201, made.text)
      assert.deepEqual((await api.call('POST /api/rpc/look')).body, CLEAN, table)
      assert.equal((await api.call(`POST /api/collections/${table}/batch`, { json: { operations } })).status, 200)
      assert.deepEqual((await api.call('POST /api/rpc/look')).body, CLEAN, table)
    }
  }
})

test('nor is anything left by a write with an Idempotency-Key, made or refused', async () => {
  const [ana, json] = [await api.signUp('ana@x.test'), { n: 1 }]
  for (let i = 0; i < 12; i++) {
    const headers = { 'idempotency-key': `key ${i}`.replace(' ', '-') }
    const [left, made] = [
      await api.call('POST /api/rpc/leave', { as: ana.token, headers }),
      await api.call('POST /api/collections/orders', { as: ana.token, headers, json }),
    ]
    assert.deepEqual([left.status, made.status], [200, 201], left.text + made.text)
    const refused = await api.call('POST /api/collections/orders/batch', {
      as: ana.token,
      headers: { 'idempotency-key': `refused-${i}` },
      json: {
        operations: [
          { method: 'create', body: json },
          { method: 'delete', id: '0' },
        ],
      },
    })
    assert.equal(refused.status, 404, refused.text)
    const seen = await Promise.all(Array.from({ length: 6 }, () => api.call('POST /api/rpc/look')))
    for (const { body } of seen) assert.deepEqual(body, CLEAN)
  }
})

test('a function that drops its role, or takes another, gains nothing', async () => {
  const reset = await api.call('POST /api/rpc/climb', { json: { to_role: null } })
  assert.equal(reset.status, 403, reset.text)
  for (const role of ['postgres', 'pg_read_all_data']) {
    const { status, text } = await api.call('POST /api/rpc/climb', { json: { to_role: role } })
    assert.equal(status, 403, text)
  }
  const user = await api.signUp('climber@x.test')
  const other = await api.call('POST /api/rpc/climb', { as: user.token, json: { to_role: 'svc_anon' } })
  assert.deepEqual([other.status, other.body], [200, 'svc_anon sees 0'])
  assert.equal((await api.call('POST /api/rpc/look')).status, 200)
})

test('callers connect as a role that can do nothing, the server as itself', async () => {
  await api.call('GET /api/collections/orders')
  const rows = await api.sql(`
    select distinct a.usename, r.rolsuper, r.rolbypassrls, r.rolinherit from pg_stat_activity a
    join pg_roles r on r.rolname = a.usename where a.datname = current_database() and a.application_name = 'savanna'
    order by 1`)
  assert.deepEqual(
    rows.map(({ usename }) => usename),
    ['postgres', 'svc_authenticator'],
  )
  assert.deepEqual({ ...rows[1] }, { usename: 'svc_authenticator', rolsuper: 'f', rolbypassrls: 'f', rolinherit: 'f' })
})
