import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually, type SpawnedServer, spawnServer, startServer } from '../kit/kit.ts'
import { isLong } from './rounds.ts'

/** In full: jobs of two seconds, a kill every five, and the lease that servers have by default. */
const [jobs, seconds, killEveryMs] = isLong ? ([200, 2, 5_000] as const) : ([16, 1, 2_000] as const)
const config = isLong ? {} : { 'jobs.lease_duration': 4 }

test(`${jobs} jobs on two processes of which one is killed again and again: all complete, each once`, async () => {
  const api = await startServer()
  await api.sql(`
    create function public.work(job int, s float) returns void language plpgsql
      as $$ begin perform pg_sleep(s); end $$;
    create table public.claims (id uuid, at timestamptz default clock_timestamp());
    create function public.note_claim() returns trigger language plpgsql security definer
      as $$ begin insert into public.claims values (new.id); return null; end $$;
    create trigger claims after update on svc.jobs for each row
      when (new.attempts > old.attempts) execute function public.note_claim();
    create table public.completions (id uuid);
    create function public.note_completion() returns trigger language plpgsql security definer
      as $$ begin insert into public.completions values (new.id); return null; end $$;
    create trigger completions after update on svc.jobs for each row
      when (new.state = 'completed') execute function public.note_completion()`)
  await api.stop()

  const servers: SpawnedServer[] = [await spawnServer({ on: api, config }), await spawnServer({ on: api, config })]
  await api.sql(`
    insert into svc.jobs (type, payload, max_attempts)
      select 'sql', jsonb_build_object('function', 'work', 'role', 'svc_anon', 'args', jsonb_build_object('job', n, 's', ${seconds}::float)), 100
      from generate_series(1, ${jobs}) n`)
  const left = async () => Number((await api.sql(`select count(*) as n from svc.jobs where state <> 'completed'`))[0].n)
  // The first is killed while both are at work, however long they took to begin.
  await eventually(async () => {
    const [{ n }] = await api.sql(`select count(distinct worker) as n from svc.jobs where state = 'running'`)
    assert.equal(Number(n), 2)
  })
  let kills = 0
  for (let victim = 0; (await left()) > 0 && kills < 200; victim = 1 - victim) {
    if (kills > 0) await new Promise((resolve) => setTimeout(resolve, killEveryMs))
    if ((await left()) === 0) break
    await servers[victim]?.kill()
    kills++
    servers[victim] = await spawnServer({ on: api, config })
  }
  await eventually(async () => assert.equal(await left(), 0), { seconds: 200 })
  assert.ok(kills > 0, 'somebody was killed')
  const completed = await api.sql(`select id, count(*) as times from public.completions group by id`)
  assert.equal(completed.length, jobs)
  assert.ok(completed.every(({ times }) => Number(times) === 1))
  const [{ attempts, again }] = await api.sql(
    `select sum(attempts)::int as attempts, count(*) filter (where attempts > 1)::int as again from svc.jobs`,
  )
  assert.ok(Number(attempts) > jobs && Number(again) > 0, 'the killed runs count')
  const zombies = await api.sql(`select from svc.jobs where worker is not null or lease_until is not null`)
  assert.equal(zombies.length, 0)
  // From one beginning to the next, by the database's clock: longer than from the kill.
  const [{ longest }] = await api.sql(`select max(gap) as longest from (
    select extract(epoch from at - lag(at) over (partition by id order by at)) as gap from public.claims) gaps`)
  assert.ok(Number(longest) <= 60, `a killed job ran again after ${longest} s`)
  console.log(`${kills} kills, ${attempts} attempts for ${jobs} jobs, longest wait for a second run ${longest} s`)
})

test('a stopping server gives its jobs to the others at once', async () => {
  const one = await spawnServer({ config: { ...config, 'jobs.lease_duration': 600 } })
  // A sequence counts what is rolled back too. The first run lasts, the next does not.
  await one.sql(`create sequence public.starts; grant usage on sequence public.starts to svc_anon;
    create function public.start() returns void language sql as $$
      select pg_sleep(case nextval('public.starts') when 1 then 600 else 0 end) $$`)
  const json = { type: 'sql', payload: { function: 'start', role: 'svc_anon' } }
  const { id } = (await one.call('POST /api/admin/jobs', { as: 'admin', json })).body
  const job = async (server: typeof one) => (await server.call(`GET /api/admin/jobs/${id}`, { as: 'admin' })).body
  // A job is `running` from its claim on, which is before its function begins.
  await eventually(async () => assert.equal((await one.sql(`select from public.starts where is_called`)).length, 1))
  const other = await spawnServer({ on: one, config })
  await one.stop()
  const done = await eventually(async () => {
    const found = await job(other)
    assert.equal(found.state, 'completed')
    return found
  })
  assert.equal(done.attempts, 2, 'the interrupted attempt counts')
})
