import assert from 'node:assert/strict'
import { before, beforeEach, test } from 'node:test'
import { eventually, type InProcessServer, startServer } from '../../../../test/kit/kit.ts'

let api: InProcessServer
before(async () => {
  api = await startServer()
  await api.sql(`
    create table users (id int primary key, name text);
    create function keep() returns trigger language plpgsql as $$
    begin if old.name = 'kept' then return null; end if; return new; end $$;
    create trigger keep before update on users for each row execute function keep()`)
  await eventually(async () => assert.equal((await api.call('GET /api/collections/users')).status, 200))
})
beforeEach(() => api.sql(`truncate users, svc.change_log; insert into users values (1, 'kept'), (2, 'old')`))

const logged = (): Promise<unknown[]> =>
  api.sql(
    `select action, record ->> 'id' as id, old_record ->> 'name' as old from svc.changes order by action, record ->> 'id'`,
  )
/** Of the rows 1, 2 and 3 the update of the first was swallowed, and the last is new. */
const TRUTH = [
  { action: 'create', id: '3', old: null },
  { action: 'update', id: '2', old: 'old' },
]
const rows = [1, 2, 3].map((id) => ({ id, name: 'new' }))

test('an update that a trigger swallows is logged by nobody, and the next new row of an import is new', async () => {
  for (const order of [rows, [...rows].reverse(), [1, 3, 2].map((id) => ({ id, name: 'new' }))]) {
    await api.sql(`truncate users, svc.change_log; insert into users values (1, 'kept'), (2, 'old')`)
    const { body } = await api.call('POST /api/collections/users/import?onConflict=id', { json: order })
    assert.deepEqual(body, { created: 1, updated: 1, skipped: 1, dry_run: false })
    assert.deepEqual(await logged(), TRUTH)
  }
})

test('the same in a mutation of GraphQL, and from one operation of a batch to the next', async () => {
  const objects = '[{ id: 1, name: "new" }, { id: 3, name: "new" }, { id: 2, name: "new" }]'
  const query = `mutation { insert_users(objects: ${objects}, on_conflict: { constraint: users_pkey, update_columns: [name] }) { affected_rows } }`
  const { body } = await api.call('POST /api/graphql', { json: { query } })
  assert.deepEqual(body, { data: { insert_users: { affected_rows: 2 } } })
  assert.deepEqual(await logged(), TRUTH)

  await api.sql(`truncate users, svc.change_log; insert into users values (1, 'kept'), (2, 'old')`)
  const upserts = ['new 1', 'new 3'].map(
    (name) => `a${name.at(-1)}: insert_users(objects: [{ id: ${name.at(-1)}, name: "${name}" }],
    on_conflict: { constraint: users_pkey, update_columns: [name] }) { affected_rows }`,
  )
  await api.call('POST /api/graphql', { json: { query: `mutation { ${upserts.join(' ')} }` } })
  assert.deepEqual(await logged(), [{ action: 'create', id: '3', old: null }])
})
