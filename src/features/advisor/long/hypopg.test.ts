import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { eventually, startServer } from '../../../../test/kit/kit.ts'
import { startEmbedded } from '../../../db/setup/embedded/embedded.ts'

/** hypopg is a package of Debian 12 for its PostgreSQL 15. Both are unpacked, not installed. */
const isDebian = process.platform === 'linux' && process.getuid?.() === 0 && existsSync('/etc/apt')
const work = mkdtempSync(join(tmpdir(), 'svc-hypopg-'))
chmodSync(work, 0o777)
after(() => rmSync(work, { recursive: true, force: true }))

const quietly = (program: string, args: string[]): string =>
  execFileSync(program, args, { cwd: work, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

function unpacked(): string {
  quietly('apt-get', ['-q', '-o', 'APT::Sandbox::User=root', 'download', 'postgresql-15', 'postgresql-15-hypopg'])
  for (const name of readdirSync(work).filter((file) => file.endsWith('.deb'))) quietly('dpkg', ['-x', name, 'root'])
  chmodSync(join(work, 'root'), 0o755)
  return join(work, 'root/usr/lib/postgresql/15/bin')
}

type Item = { kind: string; table: string; sql: string; gain?: { before: number; after: number } }

test('with hypopg advice says what an index gains, and applied it gains as much', { skip: !isDebian }, async () => {
  const cluster = await startEmbedded({ dataDir: join(work, 'data'), binDir: unpacked(), log: () => {} })
  const api = await startServer({ on: { databaseUrl: cluster.url } })
  // In a schema that is not searched.
  await api.sql(`create schema tools; create extension hypopg schema tools;
    create table people (id int primary key, email text, owner uuid not null default svc.uid());
    alter table people enable row level security; create policy all_of_it on people using (true);
    insert into people select i, 'p' || i || '@x.test', gen_random_uuid() from generate_series(1, 20000) i;
    create table mine (id int primary key, owner uuid not null default svc.uid());
    alter table mine enable row level security; create policy own on mine using (owner = svc.uid());
    insert into mine select i, gen_random_uuid() from generate_series(1, 20000) i;
    analyze`)
  const ana = await api.signUp('ana@x.test')
  const list = (query: string) => api.call(`GET /api/collections/${query}` as 'GET /x', { as: ana.token })
  await eventually(async () => assert.equal((await list('mine')).status, 200))
  const ask = async (): Promise<void> => {
    for (let i = 0; i < 110; i++) {
      await list(`people?skipTotal=true&filter=${encodeURIComponent(`email = 'p${i}@x.test'`)}`)
      await list('mine?skipTotal=true')
    }
  }
  await ask()
  const advice = async (): Promise<Item[]> => {
    const { status, body, text } = await api.call('GET /api/admin/advice', { as: 'admin' })
    assert.equal(status, 200, text)
    return body.items
  }
  const items = await advice()
  assert.deepEqual(items.map(({ kind, table }) => [kind, table]).sort(), [
    ['missing_index', 'people'],
    ['policy_index', 'mine'],
  ])
  for (const { table, gain } of items)
    assert.ok(gain && gain.after < gain.before / 10, `${table} ${JSON.stringify(gain)}`)
  assert.equal(
    (await api.sql(`select from pg_index i join pg_class c on c.oid = i.indrelid where relname in ('people', 'mine')`))
      .length,
    2,
  )
  const time = async (): Promise<number> => {
    const times: number[] = []
    for (let i = 0; i < 7; i++) {
      const [row] = await api.sql(`explain (analyze, format json) select * from people where email = 'p7@x.test'`)
      times.push(JSON.parse(row['QUERY PLAN'])[0].Plan['Actual Total Time'])
    }
    return Math.min(...times)
  }
  const before = await time()
  for (const { sql } of items) await api.sql(sql)
  assert.ok((await time()) < before)
  await ask()
  assert.deepEqual(await advice(), [])
  await api.stop()
  await cluster.stop()
})
