import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startServer, storagePath } from '../../../../test/kit/kit.ts'
import { svc as program } from '../../../../test/kit/programs.ts'
import { supabaseDatabase } from '../../../../test/kit/supabase.ts'

const home = mkdtempSync(join(tmpdir(), 'svc-killed-'))
after(() => rmSync(home, { recursive: true, force: true }))

test('a run that is killed at random moments goes on, and ends with the same', async () => {
  const source = await supabaseDatabase()
  const api = await startServer()
  for (let i = 0; i < 450; i++)
    await source.addUser({ email: `u${i}@example.com`, email_confirmed_at: '2024-01-01T00:00:00Z' })
  await source.client.query(`
    create table public.things (id bigint primary key, note text); create table public.loose (note text);
    insert into public.things select i, repeat('x', 200) from generate_series(1, 60000) i; insert into public.loose select 'x' from generate_series(1, 9000);
    grant select on public.things to anon`)
  const run = (killAfterMs?: number): Promise<number | null> =>
    new Promise((resolve) => {
      const env = {
        PATH: process.env['PATH'],
        TMPDIR: process.env['TMPDIR'],
        SVC_DATA_DIR: join(home, 'data'),
        SVC_DATABASE_URL: api.databaseUrl,
        SVC_STORAGE_LOCAL_PATH: storagePath,
      }
      const child = spawn(process.execPath, [...program, 'adopt', 'supabase', source.url, '--apply', '--json'], {
        cwd: home,
        env,
        stdio: 'ignore',
      })
      const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), killAfterMs)
      child.once('exit', (code) => {
        clearTimeout(timer)
        resolve(code)
      })
    })
  for (let i = 0; i < 8; i++) await run(300 + Math.random() * 3000)
  // What was killed may hold its lock until PostgreSQL notices.
  const deadline = Date.now() + 120_000
  while ((await run()) !== 0) assert.ok(Date.now() < deadline, 'the run never ended well')
  const [counts] =
    await api.sql(`select (select count(*) from public.things) as things, (select count(*) from public.loose) as loose, (select count(*) from svc.users) as users,
    (select count(*) from auth.users) as kept, (select md5(string_agg(t::text, '' order by id)) from public.things t) as sum`)
  const [wanted] = await source.sql(`select md5(string_agg(t::text, '' order by id)) as sum from public.things t`)
  assert.deepEqual(counts, { things: '60000', loose: '9000', users: '450', kept: '450', sum: wanted?.['sum'] })
})
