import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, startServer } from '../../../../../test/kit/kit.ts'
import { liveRows } from '../../../../../test/kit/live-list.ts'
import { talkTo } from '../../../../../test/kit/web-socket.ts'

test('who is made a member by SQL, in a table that is not watched, sees the rows within some seconds', async () => {
  const api = await startServer()
  const { token, user } = await api.signUp('ana@x.test')
  await api.sql(`create table memberships (team_id int, person uuid, primary key (team_id, person));
    create table tasks (id int primary key, team_id int);
    alter table tasks enable row level security;
    create policy mine on tasks for all using (team_id in (select m.team_id from memberships m where m.person = svc.uid()));
    grant all on memberships, tasks to svc_authenticated;
    insert into tasks values (1, 1); select svc.watch('tasks')`)
  const talker = await talkTo(api.url, { token })
  await eventually(async () =>
    assert.equal((await talker.ask({ type: 'live', collection: 'tasks', query: {} })).status, 'ok'),
  )
  const heard = talker.heard.find(({ type }) => type === 'rows')?.live ?? 1
  const holds = (ids: number[]) =>
    eventually(
      () =>
        assert.deepEqual(
          liveRows(talker, heard).items.map((row) => (row as { id: number }).id),
          ids,
        ),
      { seconds: 30 },
    )
  await holds([])
  await api.sql(`insert into memberships values (1, '${user.id}')`)
  await holds([1])
  await api.sql('insert into tasks values (2, 1), (3, 2)')
  await holds([1, 2])
  await api.sql('delete from memberships')
  await holds([])
  talker.close()
})
