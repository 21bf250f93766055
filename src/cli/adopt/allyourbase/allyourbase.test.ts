import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { hashSync } from '@node-rs/argon2'
import { adopting } from '../../../../test/kit/adopt.ts'
import { atEnd } from '../../../../test/kit/at-end.ts'
import { createEmptyDatabase } from '../../../../test/kit/cluster.ts'
import { startServer } from '../../../../test/kit/kit.ts'
import { openConnection } from '../../../db/protocol/driver.ts'
import { adoptAllYourBase } from './allyourbase.ts'

const ANN = '81111111-1111-4111-8111-111111111111'
const BO = '82222222-2222-4222-8222-222222222222'
const hash = (password: string): string => hashSync(password, { memoryCost: 1024, timeCost: 1 })

/** By the published layout. */
async function aybDatabase(): Promise<string> {
  const { url, drop } = await createEmptyDatabase()
  atEnd(drop)
  const client = await openConnection({ url })
  await client.query(`
    do $$ begin if not exists (select from pg_roles where rolname = 'ayb_authenticated') then create role ayb_authenticated nologin noinherit; end if;
    exception when duplicate_object or unique_violation then null; end $$;
    create table _ayb_users (id uuid primary key default gen_random_uuid(), email text not null, password_hash text not null, email_verified boolean not null default false,
      created_at timestamptz not null default now(), updated_at timestamptz not null default now());
    create unique index idx_ayb_users_email on _ayb_users (lower(email));
    create table _ayb_oauth_accounts (id uuid primary key default gen_random_uuid(), user_id uuid not null references _ayb_users on delete cascade, provider text not null,
      provider_user_id text not null, email text, name text, created_at timestamptz not null default now(), unique (provider, provider_user_id));
    create table _ayb_storage_objects (id uuid primary key default gen_random_uuid(), bucket text not null, name text not null, size bigint not null,
      content_type text not null default 'application/octet-stream', user_id uuid references _ayb_users on delete set null, created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(), unique (bucket, name));
    create table _ayb_api_keys (id uuid primary key default gen_random_uuid(), user_id uuid, key_hash text);
    create table _ayb_apps (id uuid primary key default gen_random_uuid(), name text not null, description text not null default '', owner_user_id uuid not null references _ayb_users(id) on delete cascade,
      rate_limit_rps int not null default 0, rate_limit_window_seconds int not null default 60);
    create table _ayb_email_templates (id uuid primary key default gen_random_uuid(), template_key varchar(255) not null unique, subject_template text not null, html_template text not null,
      enabled boolean not null default true);
    create table _ayb_push_devices (id int); create table _ayb_webhook_deliveries (id int);
    create table items (id serial primary key, owner_id uuid references _ayb_users(id) on delete cascade, name text);
    create table closed (id int primary key);
    create view people as select id, email from _ayb_users;
    alter table items enable row level security;
    create policy items_all on items using (owner_id = current_setting('ayb.user_id', true)::uuid) with check (owner_id = current_setting('ayb.user_id', true)::uuid);
    grant usage on schema public to ayb_authenticated; grant select, insert, update, delete on items to ayb_authenticated; grant usage on sequence items_id_seq to ayb_authenticated`)
  await client.query(
    `insert into _ayb_users (id, email, password_hash, email_verified) values ($1, 'Ann@example.com', $2, true), ($3, 'bo@example.com', '$none$', true)`,
    [ANN, hash('old password of ann'), BO],
  )
  await client.query(`insert into _ayb_oauth_accounts (user_id, provider, provider_user_id) values ('${BO}', 'github', 'gh-1'); insert into _ayb_api_keys (user_id) values ('${ANN}');
    insert into _ayb_apps (name, owner_user_id, rate_limit_rps) values ('shop', '${ANN}', 5); insert into _ayb_push_devices values (1); insert into _ayb_webhook_deliveries values (1);
    insert into _ayb_email_templates (template_key, subject_template, html_template) values ('auth.magic_link', 'Come to {{.AppName}}', '<a href="{{.ActionURL}}">in</a>'),
      ('app.invite', 'x', '{{if .Name}}x{{end}}');
    insert into items (owner_id, name) values ('${ANN}', 'hers'), ('${BO}', 'his'); insert into _ayb_storage_objects (bucket, name, size, content_type, user_id) values ('docs', 'a/b.txt', 2, 'text/plain', '${ANN}')`)
  await client.end()
  return url
}

const files = mkdtempSync(join(tmpdir(), 'svc-ayb-'))
after(() => rmSync(files, { recursive: true, force: true }))
mkdirSync(join(files, 'docs/a'), { recursive: true })
writeFileSync(join(files, 'docs/a/b.txt'), 'hi')

const names = async (api: Awaited<ReturnType<typeof startServer>>, as: string) =>
  ((await api.call('GET /api/collections/items', { as })).body.items as { name: string }[]).map(({ name }) => name)

test('a copy: tables, policies under our prefix, people with their passwords, files', async () => {
  const [source, api] = [await aybDatabase(), await startServer()]
  const plan = await adopting(adoptAllYourBase, api.databaseUrl, [source])
  assert.deepEqual([plan.done, plan.users], [undefined, { total: 2, by_credential: { argon2: 1, external: 1 } }])
  assert.match(plan.policies[0]?.using ?? '', /'svc\.user_id'/)
  const said = plan.notes.map(({ level, what }) => `${level} ${what}`)
  for (const expected of [
    'skipped 1 API keys',
    'closed bucket docs',
    'skipped view "public"."people"',
    'changed 1 apps',
    'changed 1 mail templates',
    'skipped mail template app.invite',
    'skipped 1 rows of _ayb_push_devices',
  ])
    assert.ok(said.includes(expected), `${expected} in ${said.join('\n')}`)
  assert.ok(!said.some((one) => one.includes('deliveries')))
  const { done } = await adopting(adoptAllYourBase, api.databaseUrl, [source], { apply: true, files })
  assert.deepEqual(done, { tables: 2, users: 2, rows: 2, files: 1 })
  const again = await adopting(adoptAllYourBase, api.databaseUrl, [source], { apply: true, files })
  assert.deepEqual(again.done, { tables: 0, users: 0, rows: 0, files: 0 })
  const signed = await api.call('POST /api/auth/login', {
    json: { email: 'ann@example.com', password: 'old password of ann' },
  })
  assert.deepEqual([signed.status, signed.body.user?.id], [200, ANN])
  assert.deepEqual(await names(api, signed.body.token), ['hers'])
  assert.notEqual((await api.call('GET /api/collections/items')).status, 200)
  assert.notEqual((await api.call('GET /api/collections/closed', { as: signed.body.token })).status, 200)
  assert.equal((await api.call('GET /api/storage/docs/a/b.txt', { as: signed.body.token })).text, 'hi')
  assert.deepEqual(
    await api.sql(
      'select a.name, a.rate_limit_rps::text as rps, u.email from svc.apps a join svc.users u on u.id = a.owner_user_id',
    ),
    [{ name: 'shop', rps: '5', email: 'ann@example.com' }],
  )
  const mail = await api.call('GET /api/admin/email/templates/auth.magic_link', { as: 'admin' })
  assert.equal(mail.body.subjectTemplate, 'Come to {{.AppName}}')
  assert.equal((await api.sql(`select user_id from svc.identities where subject = 'gh-1'`))[0].user_id, BO)
})

test('in place: its policies and foreign keys hold for who is here', async () => {
  const url = await aybDatabase()
  const { done } = await adopting(adoptAllYourBase, url, [], { 'in-place': true, apply: true })
  assert.deepEqual(done, { tables: 0, users: 2, rows: 0, files: 0 })
  const api = await startServer({ on: { databaseUrl: url } })
  const signed = await api.call('POST /api/auth/login', {
    json: { email: 'ann@example.com', password: 'old password of ann' },
  })
  assert.deepEqual(await names(api, signed.body.token), ['hers'])
  const { token, user } = await api.signUp('late@example.com')
  const made = await api.call('POST /api/collections/items', { as: token, json: { name: 'mine', owner_id: user.id } })
  assert.equal(made.status, 201)
  assert.deepEqual(await names(api, token), ['mine'])
  assert.notEqual((await api.call('GET /api/collections/closed', { as: token })).status, 200)
  await api.stop()
})

test('a database of another product is a clear sentence', async () => {
  const api = await startServer()
  await assert.rejects(adopting(adoptAllYourBase, api.databaseUrl, [api.databaseUrl]), /no database of AllYourBase/)
})
