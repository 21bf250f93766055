import assert from 'node:assert/strict'
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createDatabase, stopClusters } from '../../../test/kit/cluster.ts'
import { packageRoot } from '../../core/package-root.ts'
import { openConnection } from '../protocol/driver.ts'
import { migrate } from '../setup/migrate.ts'

const cleanups: (() => Promise<unknown>)[] = []
after(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup()
  await stopClusters()
})

const NEW_LOG = '0070_change_log.sql'

test('entries of the former log are read through the view, unread ones from where their readers stood', async () => {
  const { url, drop } = await createDatabase('embedded')
  const client = await openConnection({ url })
  const former = await mkdtemp(join(tmpdir(), 'svc-migrations-'))
  cleanups.push(
    () => rm(former, { recursive: true }),
    drop,
    () => client.end(),
  )
  await client.query('drop schema svc cascade')
  const all = `${packageRoot}migrations`
  for (const name of await readdir(all)) if (name < NEW_LOG) await cp(join(all, name), join(former, name))
  await migrate(client, former)
  await client.query(`
    create table public.notes (id int primary key, body text);
    create table public.pairs (b int, a text, primary key (b, a));
    insert into svc.change_readers (name, xid, id) values ('webhooks', pg_current_xact_id(), 1);
    do $$
    declare
      k text := (select key from svc.log_key);
      who text := '{"kind":"user","id":"ana"}';
    begin
      perform svc.append_change(k, 'create', 'notes', 'public', 'notes', who, '{"id":1}', '{"id":1,"body":"x"}', null);
      perform svc.append_change(k, 'update', 'notes', 'public', 'notes', who, '{"id":1}', '{"id":1,"body":"y"}', '{"id":1,"body":"x"}');
      perform svc.append_change(k, 'delete', 'notes', 'public', 'gone', who, '{"id":9}', null, '{"id":9}');
      perform svc.append_change(k, 'create', 'pairs', 'public', 'pairs', who, '{"a":"q","b":1}', '{"a":"q","b":1}', null);
      perform svc.append_creates(k, 'notes', 'public', 'notes', who, '{id}', 30, 2, '{"id":[7,8],"body":["a",null]}');
    end $$`)
  const columns = 'id, xid::text, at::text, action, schema_name, table_name, pk, record, old_record, actor'
  const before = await client.query(`
    select c.id + coalesce(u.n, 0) as id, c.xid::text, c.at::text, c.action, c.schema_name, c.table_name,
      coalesce(u.pk, c.pk) as pk, coalesce(u.record, c.record) as record, c.old_record, c.actor
    from svc.changes c left join lateral svc.unpack_changes(c.packed, c.key_columns) u on true order by 1`)
  assert.deepEqual(await migrate(client, all), (await readdir(all)).filter((name) => name >= NEW_LOG).sort())
  const now = await client.query(`select ${columns} from svc.changes order by id`)
  assert.equal(now.rows.length, 6)
  assert.deepEqual(now.rows, before.rows)
  const found = async (table: string, key: string) =>
    (await client.query(`select action from svc.changes_of('${table}'::regclass, $1) order by id`, [key])).rows
  assert.deepEqual(await found('public.notes', '1'), [{ action: 'create' }, { action: 'update' }])
  assert.deepEqual(await found('public.notes', '8'), [{ action: 'create' }])
  assert.deepEqual(await found('public.pairs', '[1, "q"]'), [{ action: 'create' }])
  const { rows: ids } = await client.query(
    `select max(entry) < nextval('svc.change_log_id_seq') as is_behind from svc.changes`,
  )
  assert.deepEqual(ids, [{ is_behind: 't' }], 'new entries come behind the old ones')
})
