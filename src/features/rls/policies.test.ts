import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServer } from '../../../test/kit/kit.ts'

const api = await startServer()
await api.sql(`
  create table notes (id int primary key, owner text, title text);
  create table plain (id int primary key);
  create table svc_like (id int primary key);
  insert into notes values (1, 'ana', 'one'), (2, 'bo', 'two');
  create schema hidden; create table hidden.things (id int primary key);`)

const post = (path: string, json?: unknown) =>
  api.call(`POST /api/admin/rls${path}`, { as: 'admin', ...(json !== undefined && { json }) })
const get = (path: string) => api.call(`GET /api/admin/rls${path}`, { as: 'admin' })

test('a policy is made, listed, in force at once, and dropped', async () => {
  assert.deepEqual((await get('/notes/status')).body, { rlsEnabled: false, forceRls: false })
  assert.deepEqual((await post('/notes/enable')).body, { message: 'RLS enabled on notes' })
  assert.equal((await api.call('GET /api/collections/notes')).body.totalItems, 0)

  const made = await post('', {
    table: 'notes',
    name: 'shown',
    command: 'select',
    using: `owner = 'ana'`,
    roles: ['PUBLIC'],
  })
  assert.deepEqual([made.status, made.body], [201, { message: 'policy created' }])
  assert.equal((await api.call('GET /api/collections/notes')).body.totalItems, 1)
  const expected = {
    tableSchema: 'public',
    tableName: 'notes',
    policyName: 'shown',
    command: 'SELECT',
    permissive: 'PERMISSIVE',
    roles: [],
    usingExpr: `(owner = 'ana'::text)`,
    withCheckExpr: null,
  }
  assert.deepEqual((await get('/notes')).body, [expected])
  assert.deepEqual((await get('')).body, [expected])
  assert.deepEqual((await get('/nothing')).body, [])

  const second = {
    table: 'notes',
    name: 'limits',
    schema: 'public',
    permissive: false,
    roles: ['svc_anon'],
    withCheck: 'true',
    using: '(id) < (3)',
  }
  assert.equal((await post('', second)).status, 201)
  const [limits] = (await get('/public.notes')).body
  assert.deepEqual([limits.permissive, limits.roles, limits.command], ['RESTRICTIVE', ['svc_anon'], 'ALL'])

  for (const name of ['shown', 'limits']) {
    assert.equal((await api.call(`DELETE /api/admin/rls/notes/${name}`, { as: 'admin' })).status, 204)
  }
  assert.deepEqual((await post('/public.notes/disable')).body, { message: 'RLS disabled on public.notes' })
  assert.equal((await api.call('GET /api/collections/notes')).body.totalItems, 2)
})

test('what is no name, no command or no expression is refused in one sentence', async () => {
  const cases: [Record<string, unknown>, string][] = [
    [{ name: 'p' }, 'table is required'],
    [{ table: 'notes' }, 'name is required'],
    [{ table: 'no-tes', name: 'p' }, 'invalid table name'],
    [{ table: 'notes', name: 'p', schema: 'a b' }, 'invalid schema name'],
    [{ table: 'things', name: 'p', schema: 'hidden' }, 'invalid schema name'],
    [{ table: 'users', name: 'p', schema: 'svc' }, 'invalid schema name'],
    [{ table: 'notes', name: 'p"' }, 'invalid policy name'],
    [{ table: 'notes', name: 'p'.repeat(64) }, 'invalid policy name'],
    [{ table: 'notes', name: 'p', roles: ['a; drop'] }, 'invalid role name: a; drop'],
    [{ table: 'notes', name: 'p', roles: 'x' }, 'roles must be an array of strings'],
    [{ table: 'notes', name: 1 }, 'name must be a string'],
    [{ table: 'notes', name: 'p', command: 'TRUNCATE' }, 'command must be one of: ALL, SELECT, INSERT, UPDATE, DELETE'],
    [{ table: 'notes', name: 'p', using: 'true; drop table notes' }, 'invalid USING expression'],
    [{ table: 'notes', name: 'p', using: 'true -- x' }, 'invalid USING expression'],
    [{ table: 'notes', name: 'p', using: '/* x */ true' }, 'invalid USING expression'],
    [{ table: 'notes', name: 'p', using: 'true) with check (true' }, 'invalid USING expression'],
    [{ table: 'notes', name: 'p', using: `owner = 'x` }, 'invalid USING expression'],
    [{ table: 'notes', name: 'p', using: `owner = $a$ ) $b$` }, 'invalid USING expression'],
    [{ table: 'notes', name: 'p', using: 'id =' }, 'invalid USING expression: syntax error at or near ")"'],
    [{ table: 'notes', name: 'p', using: 'select true' }, 'invalid USING expression: syntax error at or near "select"'],
    [{ table: 'notes', name: 'p', using: 'id = 1, true' }, 'invalid USING expression: syntax error at or near ","'],
    [
      { table: 'notes', name: 'p', withCheck: 'owner = = 1' },
      'invalid WITH CHECK expression: syntax error at or near "="',
    ],
    [{ table: 'notes', name: 'p', withCheck: 'id = (1' }, 'invalid WITH CHECK expression'],
    [
      { table: 'notes', name: 'p', using: 'no_such_column' },
      'failed to create policy: column "no_such_column" does not exist',
    ],
    [
      { table: 'nothing', name: 'p', using: 'true' },
      'failed to create policy: relation "public.nothing" does not exist',
    ],
    [
      { table: 'notes', name: 'p', roles: ['nobody_here'] },
      'failed to create policy: role "nobody_here" does not exist',
    ],
    [
      { table: 'notes', name: 'p', command: 'insert', using: 'true' },
      'failed to create policy: only WITH CHECK expression allowed for INSERT',
    ],
  ]
  for (const [json, message] of cases) {
    const { status, body } = await post('', json)
    assert.deepEqual([status, body.message], [400, message], JSON.stringify(json))
  }
  assert.deepEqual((await get('')).body, [])
})

test('parentheses and signs inside quotes are part of an expression', async () => {
  const using = `title <> ')(' and "title" <> E'it\\'s )' and title <> $q$ ( $q$ and id = any (array[1, 2])`
  assert.deepEqual((await post('', { table: 'plain', name: 'none', using: 'id = (1)' })).status, 201)
  assert.deepEqual((await post('', { table: 'notes', name: 'quoted', using })).body, { message: 'policy created' })
  await api.call('DELETE /api/admin/rls/notes/quoted', { as: 'admin' })
  await api.call('DELETE /api/admin/rls/plain/none', { as: 'admin' })
})

test('tables outside the exposed schemas are out of reach', async () => {
  for (const table of ['svc.users', 'hidden.things', 'pg_catalog.pg_class']) {
    assert.equal((await post(`/${table}/enable`)).status, 400, table)
    assert.equal((await get(`/${table}`)).status, 400, table)
    assert.equal((await api.call(`DELETE /api/admin/rls/${table}/p`, { as: 'admin' })).status, 400, table)
    assert.deepEqual(
      (await get(`/${table}/status`)).body,
      { code: 404, error: 'table_not_found', message: 'table not found' },
      table,
    )
  }
  assert.deepEqual((await get('/a%20b/status')).body, {
    code: 400,
    error: 'validation_failed',
    message: 'invalid table name',
  })
  assert.deepEqual((await get('/nothing/status')).body, {
    code: 404,
    error: 'table_not_found',
    message: 'table not found',
  })
  assert.equal(
    (await post('/nothing/enable')).body.message,
    'failed to enable RLS: relation "public.nothing" does not exist',
  )
  const dropped = await api.call('DELETE /api/admin/rls/notes/nothing', { as: 'admin' })
  assert.equal(dropped.body.message, 'failed to drop policy: policy "nothing" for table "notes" does not exist')
})

test('what the operator did is in the audit trail', async () => {
  const { items } = (await api.call('GET /api/admin/audit?action=rls.enable', { as: 'admin' })).body
  assert.equal(items.at(-1).target, 'notes')
  const created = (await api.call('GET /api/admin/audit?action=rls_policy.create', { as: 'admin' })).body
  assert.ok(created.items.some((item: { target: string }) => item.target === 'shown'))
})

test('the entry of a dropped policy says what it was and on which table', async () => {
  const policy = { table: 'notes', name: 'gone', command: 'SELECT', roles: ['svc_anon'], using: 'id > 7' }
  assert.equal((await post('', policy)).status, 201)
  assert.equal((await api.call('DELETE /api/admin/rls/public.notes/gone', { as: 'admin' })).status, 204)
  const entry = async (action: string) =>
    (await api.call(`GET /api/admin/audit?action=${action}`, { as: 'admin' })).body.items[0]
  const dropped = await entry('rls_policy.delete')
  assert.deepEqual(
    [dropped.target, dropped.old_values],
    [
      'gone',
      {
        tableSchema: 'public',
        tableName: 'notes',
        policyName: 'gone',
        command: 'SELECT',
        permissive: 'PERMISSIVE',
        roles: ['svc_anon'],
        usingExpr: '(id > 7)',
        withCheckExpr: null,
      },
    ],
  )
  await post('/plain/enable')
  await post('/public.plain/disable')
  const { target, old_values, new_values } = await entry('rls.disable')
  assert.deepEqual([target, old_values, new_values], ['public.plain', { rlsEnabled: true }, { rlsEnabled: false }])
})
