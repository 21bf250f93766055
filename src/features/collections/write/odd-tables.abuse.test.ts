import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../../test/kit/kit.ts'

const api = await startServer({ config: { 'database.max_conns': 2 } })
await api.sql(`
  create table vault (id int primary key, pin text unique);
  revoke all on vault from svc_anon, svc_authenticated;
  insert into vault values (1, 'pin 4711');
  create table doors (id int primary key, name text unique);
  create function copy_pin() returns trigger language plpgsql security definer as
    $$ begin insert into public.vault select 2, pin from public.vault where new.name = 'steal'; return new; end $$;
  create trigger copy_pin before insert on doors for each row execute function copy_pin();
  create function copy_now() returns int language sql volatile security definer as
    $$ insert into public.vault select 2, pin from public.vault returning id $$;
  insert into doors values (1, 'front');

  create table ruled (id int primary key, n int);
  create table copies (id int, n int);
  create rule copy as on insert to ruled do also insert into copies values (new.id, new.n);
  create table kept (id int primary key);
  create rule keep as on delete to kept do instead nothing;
  insert into kept values (1);

  create table names (id int primary key, t regtype, c regclass, j jsonpath, p regproc, r regrole, n regnamespace, f regconfig);

  create function check_it(int) returns boolean language plpgsql as
    $$ begin perform set_config('app.left', 'by another', false); return true; end $$;
  create domain checked as int check (check_it(value));
  create domain twice as checked;
  create type holder as (v twice);
  create table checks (id int primary key, v holder);
  create function left_behind() returns text language sql stable as $$ select current_setting('app.left', true) $$;
`)

test('the detail of a conflict is told of the table of the request alone', async () => {
  const own = await api.call('POST /api/collections/doors', { json: { id: 2, name: 'front' } })
  assert.match(own.body.data.doors_name_key.message, /front/)
  const inside = await api.call('POST /api/collections/doors', { json: { id: 3, name: 'steal' } })
  const called = await api.call('POST /api/rpc/copy_now', { json: {} })
  for (const { status, text } of [inside, called]) {
    assert.equal(status, 409)
    assert.doesNotMatch(text, /4711/)
  }
})

test('what rules of a table rewrite is read only, and the operator is told', async () => {
  const created = await api.call('POST /api/collections/ruled', { json: { id: 1 } })
  assert.deepEqual([created.status, created.body.error], [405, 'view_not_writable'])
  assert.equal((await api.call('DELETE /api/collections/kept/1')).status, 405)
  assert.equal((await api.call('POST /api/collections/kept', { json: { id: 2 } })).status, 201)
  const query = 'mutation { insert_ruled(objects: [{id: 1}]) { affected_rows } }'
  const { body } = await api.call('POST /api/graphql', { json: { query } })
  assert.equal(body.errors[0].extensions.code, 400)
  const { body: status } = await api.call('GET /api/admin/status', { as: 'admin' })
  const told = status.warnings.filter((warning: string) => warning.includes('has rules'))
  assert.deepEqual(
    told.map((warning: string) => warning.split(' ')[0]),
    ['public.kept', 'public.ruled'],
  )
})

test('names of objects that are not there are bad values', async () => {
  const values = { t: 'nope', c: 'nope', j: '$[', p: 'nope', r: 'nope', n: 'nope', f: 'nope' }
  for (const [column, value] of Object.entries(values)) {
    const read = await api.call(`GET /api/collections/names?filter=${encodeURIComponent(`${column}='${value}'`)}`)
    assert.deepEqual([read.status, read.body.error], [400, 'invalid_filter'], column)
    const made = await api.call('POST /api/collections/names', { json: { id: 1, [column]: value } })
    assert.deepEqual([made.status, made.body.error], [400, 'invalid_parameter_value'], column)
  }
})

test('functions in the checks of domains leave nothing in a session', async () => {
  for (let id = 1; id <= 4; id++) {
    assert.equal((await api.call('POST /api/collections/checks', { json: { id, v: { v: 1 } } })).status, 201)
    const { body } = await api.call('POST /api/rpc/left_behind', { json: {} })
    assert.ok(body === null || body === '', `a session still has ${body}`)
  }
})
