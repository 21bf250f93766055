import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../../../../test/kit/at-end.ts'
import { query, runSvc, startEmbeddedServer, testFolder, upload } from '../../../../test/kit/backups.ts'
import { clusterUrl, withoutExtensions } from '../../../../test/kit/cluster.ts'
import { startServer } from '../../../../test/kit/kit.ts'
import { openConnection } from '../../../db/protocol/driver.ts'

const skip = withoutExtensions
const home = testFolder()
const to = join(home, 'target')
const secret = 'a secret of thirty-two characters or more'
const passphrase = { 'backup.passphrase': 'only for tests' }
const mark = Math.random().toString(36).slice(2, 8)
const [role, database] = [`managed_${mark}`, `managed_${mark}`]

/** A database as a managed service gives it: its owner may make roles, and not replicate. */
async function managedDatabase(kind: 'embedded' | 'extensions'): Promise<string> {
  const url = await clusterUrl(kind)
  const client = await openConnection({ url })
  await client.query(`create role ${role} login createrole`)
  await client.query(`create database ${database} owner ${role}`)
  atEnd(async () => {
    await client.query(`drop database ${database} with (force)`)
    await client.query(`drop role if exists lesser_${mark}`)
    await client.end()
  })
  return url.replace(/\/\/[^@]*@([^/]*)\/[^?]*/, `//${role}@$1/${database}`)
}

/** Which the embedded PostgreSQL does not bring. */
async function extendWithVectors(): Promise<void> {
  const client = await openConnection({
    url: (await clusterUrl('extensions')).replace(/\/[^/?]*(\?|$)/, `/${database}$1`),
  })
  await client.query('create extension vector')
  await client.end()
}

const SCHEMA = `
  create extension pg_trgm;
  create table public.notes (id bigint generated always as identity primary key, title text not null,
    length int generated always as (char_length(title)) stored, parent bigint references public.notes);
  create index notes_words on public.notes using gin (title gin_trgm_ops);
  insert into public.notes (title, parent) select 'note ' || n || E'\\twith a tab, a \\\\ and a line\\n', nullif(n - 1, 0) from generate_series(1, 5000) n;
  create table public."Odd ""name""" ("a column" text, b bytea, c jsonb, d float8);
  insert into public."Odd ""name""" values (null, '\\x00ff', '{"a":[1,null]}', 'NaN'), ('', '', 'null', '-Infinity');
  create table public.parts (id int, day date) partition by range (day);
  create table public.parts_1 partition of public.parts for values from ('2026-01-01') to ('2027-01-01');
  insert into public.parts values (1, '2026-05-05');
  create table public.nothing ();
  insert into public.nothing default values;
  create function public.whoami() returns text language sql immutable as $$ select current_user::text $$;
  create role lesser_${mark} nologin;
  grant lesser_${mark} to current_user;
  create table public.spied (id int, who text generated always as (public.whoami()) stored);
  insert into public.spied values (1);
  grant create on schema public to lesser_${mark};
  alter table public.spied owner to lesser_${mark};
  create view public.titles as select title from public.notes;
  create materialized view public.counted as select count(*) as n from public.notes;
  create function public.twice(n int) returns int language plpgsql as $$ begin return 2 * n; end $$;
  create function public.refuse() returns trigger language plpgsql as $$ begin raise exception 'fired'; end $$;
  create trigger refusing before update on public.notes for each row execute function public.refuse();
  alter table public.notes enable row level security;
  create policy own on public.notes for select to svc_authenticated using (id < 10)`

test('where the role may not replicate, a logical copy is taken, verified and restored into a newer PostgreSQL', {
  skip,
}, async () => {
  const url = await managedDatabase('extensions')
  const storage = join(home, 'storage')
  const external = {
    'database.url': url,
    'auth.jwt_secret': secret,
    'storage.local_path': storage,
    'backup.to': to,
    ...passphrase,
  }
  const server = await startServer({ on: { databaseUrl: url }, config: external })
  await query(server, SCHEMA)
  assert.equal(await upload(server, 'kept.txt', 'bytes of a file'), 201)
  const account = await server.call('POST /api/auth/register', { json: { email: 'a@x.test', password: 'long enough' } })
  assert.equal(account.status, 201, account.text)

  const config = { ...external, data_dir: join(home, 'data') }
  const said = await runSvc(['backup'], config)
  assert.equal(said.code, 0, said.err)
  assert.match(said.out, new RegExp(`^the role ${role} may not replicate: a logical copy is taken, [^\\n]+\\n`))
  const taken = JSON.parse((await runSvc(['backup', '--json'], config)).out)
  assert.deepEqual([taken.state, taken.kind], ['good', 'logical'])
  assert.match(taken.from, /^[0-9A-F]+\/[0-9A-F]+$/)
  const verified = await runSvc(['backup', 'verify', taken.id, '--json'], config)
  const verdict = JSON.parse(verified.out)
  assert.equal(verdict.verification, 'good', verified.out + verified.err)
  assert.ok(verdict.rows > 5000 && verdict.indexes > 100, verified.out)

  const before = await contents(server)
  await server.stop()
  await extendWithVectors()
  const extended = JSON.parse((await runSvc(['backup', '--json', '--to', join(home, 'extended')], config)).out)
  const untried = await runSvc(['backup', 'verify', extended.id, '--json', '--to', join(home, 'extended')], config)
  assert.equal(JSON.parse(untried.out).verification, 'not verified: no extension vector here', untried.err)
  assert.equal(untried.code, 1)
  const lacking = join(home, 'lacking')
  const refused = await runSvc(['restore', '--from', join(home, 'extended'), '--data-dir', lacking], passphrase)
  assert.equal(refused.code, 1)
  assert.match(refused.out, /its files are missing: svc extensions add vector --data-dir /)
  assert.match(refused.err, /^a logical copy cannot be restored without the extensions of its database: vector\n$/)
  assert.equal(existsSync(lacking), false)
  const copy = join(home, 'copy')
  const restored = await runSvc(['restore', '--from', to, '--data-dir', copy], passphrase)
  assert.equal(restored.code, 0, restored.err)
  assert.match(restored.out, /It is a drill/)
  const again = await startEmbeddedServer(copy)
  assert.deepEqual(await contents(again), before)
  assert.equal((await again.call('GET /api/storage/files/kept.txt')).text, 'bytes of a file')
  const [[who] = []] = await query(again, 'select who from public.spied')
  assert.equal(who, `lesser_${mark}`, 'what the owner of a table wrote ran as the owner')
  const login = await again.call('POST /api/auth/login', { json: { email: 'a@x.test', password: 'long enough' } })
  assert.equal(login.status, 200, login.text)
  const mine = await again.call('GET /api/collections/notes?perPage=100', { as: login.body.token })
  assert.equal(mine.body.items.length, 9, 'row security came along')
  const changed = await again.call('PATCH /api/collections/notes/1', { as: 'admin', json: { title: 'other' } })
  assert.match(changed.text, /fired/, 'triggers came along, and did not fire before')
  const made = await again.call('POST /api/collections/notes', { as: 'admin', json: { title: 'later' } })
  assert.equal(made.status, 201, made.text)
  assert.ok(Number(made.body.id) > 5000, 'sequences go on')
  await again.stop()

  const late = await runSvc(['restore', '--from', to, '--data-dir', join(home, 'at'), '--at', '2099-01-01'], passphrase)
  assert.equal(late.code, 2)
  const continuous = await runSvc(['start'], { ...config, 'backup.continuous': 'async', 'server.port': 0 })
  assert.equal(continuous.code, 1)
  assert.match(continuous.err, /^backup.continuous needs a role that may replicate, and managed_\w+ may not: /)
})

const contents = async (api: Parameters<typeof query>[0]) => [
  await query(api, 'select count(*), sum(length), max(title), sum(parent) from public.notes'),
  await query(api, 'select * from public."Odd ""name""" order by d'),
  await query(api, 'select * from public.parts'),
  await query(api, 'select (select count(*) from public.nothing), (select n from public.counted), public.twice(4)'),
  await query(api, `select indexdef from pg_indexes where schemaname = 'public' order by 1`),
  await query(api, `select extname from pg_extension order by 1`),
  await query(
    api,
    `select conname from pg_constraint where connamespace = 'public'::regnamespace and contype <> 'n' order by 1`,
  ),
  await query(api, 'select count(*) from svc.migrations'),
]

test('without a pg_dump that knows the version, it is refused in a sentence', async () => {
  const url = await managedDatabase('embedded')
  const server = await startServer({ on: { databaseUrl: url }, config: { 'auth.jwt_secret': secret } })
  const config = { 'database.url': url, 'auth.jwt_secret': secret, data_dir: join(home, 'none'), ...passphrase }
  const { code, err } = await runSvc(['backup', '--to', join(home, 'none-target')], { ...config })
  assert.equal(code, 1)
  assert.match(
    err,
    new RegExp(
      `^the role ${role} may not replicate, and a logical copy needs pg_dump of PostgreSQL \\d+ or newer on the path`,
    ),
  )
  await server.stop()
})
