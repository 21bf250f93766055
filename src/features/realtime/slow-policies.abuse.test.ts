import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listenTo } from '../../../test/kit/event-stream.ts'
import { eventually, startServer } from '../../../test/kit/kit.ts'
import { Flight } from '../../db/protocol/flight.ts'

test('a listener whose policies are slow delays itself alone, live and while it resumes', async (t) => {
  const api = await startServer()
  const slow = await api.signUp('slow@x.test')
  const [ana, bo] = [await api.signUp('ana@x.test'), await api.signUp('bo@x.test')]
  await api.sql(`
    create table posts (id serial primary key, body text);
    create function may_see() returns boolean language plpgsql volatile as $$
    begin
      if current_setting('svc.user_id', true) = '${slow.user.id}' then perform pg_sleep(0.2); end if;
      return true;
    end $$;
    alter table posts enable row level security;
    create policy seen on posts using (may_see())`)
  await eventually(async () =>
    assert.equal((await api.call('GET /api/collections/posts?perPage=1', { as: ana.token })).status, 200),
  )
  const [its, hers, his] = await Promise.all([slow, ana, bo].map(({ token }) => listenTo(api.url, { token })))
  assert.ok(its && hers && his)
  const start = hers.lastId()
  const ended = t.mock.method(Flight.prototype, 'end')
  const write = async (): Promise<number> =>
    (await api.call('POST /api/collections/posts', { as: 'admin', json: { body: 'x' } })).body.id
  const resumed: Awaited<ReturnType<typeof listenTo>>[] = []
  for (let i = 0; i < 3; i++) {
    const id = await write()
    for (const stream of [hers, his]) await stream.until(({ data }) => data?.record?.id === id)
    if (i > 0) resumed.push(await listenTo(api.url, { token: slow.token, query: { lastEventId: start } }))
    const checks = await api.sql(
      `select from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`,
    )
    assert.ok(checks.length <= 1, `${checks.length} checks of one caller at a time`)
  }
  // It was found out once; from then on no other waited for its policies.
  const asksAbout = (flight: Flight, id: string): boolean =>
    flight.plan.steps.some(({ text, values }) => text.includes('set_config') && values.includes(id))
  const together = ended.mock.calls
    .map((call) => call.this as Flight)
    .filter((flight) => asksAbout(flight, slow.user.id) && asksAbout(flight, ana.user.id))
  assert.ok(together.length <= 1, `${together.length} checks together with others`)
  // And it hears of everything, late.
  await eventually(() => assert.equal(its.changes().length, 3))
  for (const stream of [its, hers, his, ...resumed]) stream.close()
})
