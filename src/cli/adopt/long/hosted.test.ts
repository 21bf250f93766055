import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adopting } from '../../../../test/kit/adopt.ts'
import { postgresMajor, startPrivateCluster } from '../../../../test/kit/cluster.ts'
import { startServer } from '../../../../test/kit/kit.ts'
import { hostedSupabase, OBJECTS_OF_SUPABASE } from '../../../../test/kit/supabase.ts'
import { openConnection } from '../../../db/protocol/driver.ts'
import { adoptSupabase } from '../supabase/supabase.ts'

const APP = `
  create table public.profiles (id uuid primary key references auth.users on delete cascade, name text);
  create table public.notes (id bigserial primary key, owner uuid not null default auth.uid() references auth.users on delete cascade, text text);
  alter table public.notes enable row level security;
  create policy own on public.notes to authenticated using ((select auth.uid()) = owner) with check ((select auth.uid()) = owner);
  grant all on public.notes, public.profiles to anon, authenticated; grant all on sequence public.notes_id_seq to anon, authenticated;
  create function public.handle_new_user() returns trigger language plpgsql security definer set search_path = '' as $$ begin
    insert into public.profiles (id, name) values (new.id, new.email); return new; end $$;
  alter publication supabase_realtime add table public.notes`

test('in place as the role that Supabase gives out: it owns neither auth nor storage', async () => {
  const cluster = await startPrivateCluster()
  const source = await hostedSupabase(cluster.url, 'given', postgresMajor)
  const owner = await openConnection({ url: source.given })
  await owner.query(APP)
  await owner.end()
  // The dashboard of Supabase makes triggers there for them.
  await source.sql(
    'create trigger on_auth_user_created after insert on auth.users for each row execute function public.handle_new_user()',
  )
  const ann = await source.addUser({
    email: 'ann@example.com',
    email_confirmed_at: '2024-01-01T00:00:00Z',
    password: 'old password of ann',
  })
  await source.sql(`insert into public.notes (owner, text) values ('${ann}', 'mine')`)
  await source.sql(`insert into vault.secrets (secret) values ('hush')`)
  await source.sql(`insert into auth.webauthn_credentials (user_id, public_key) values ('${ann}', 'x')`)
  const adopt = (flags: Record<string, string | true>) =>
    adopting(adoptSupabase, source.given, [], { 'in-place': true, ...flags })
  const objects = async () => (await source.sql(OBJECTS_OF_SUPABASE))[0]?.['all']
  const before = await objects()

  const plan = await adopt({})
  assert.ok(plan.notes.some(({ what }) => what === '1 passkeys'))
  assert.equal(await objects(), before)
  const done = await adopt({ apply: true })
  assert.deepEqual(done.done, { tables: 0, users: 1, rows: 0, files: 0 })
  assert.equal(done.notes.find(({ what }) => what === 'auth.users')?.level, 'changed')
  assert.deepEqual((await adopt({ apply: true })).done, { tables: 0, users: 0, rows: 0, files: 0 })

  const api = await startServer({ config: { 'database.url': source.given } })
  const signed = await api.call('POST /api/auth/login', {
    json: { email: 'ann@example.com', password: 'old password of ann' },
  })
  assert.equal(signed.status, 200)
  const mine = await api.call('GET /api/collections/notes', { as: signed.body.token as string })
  assert.deepEqual(
    (mine.body.items as { text: string }[]).map(({ text }) => text),
    ['mine'],
  )
  const late = await api.signUp('late@example.com')
  assert.equal((await api.call('POST /api/collections/notes', { as: late.token, json: { text: 'late' } })).status, 201)
  assert.deepEqual(await source.sql(`select name from public.profiles where id = '${late.user.id}'`), [
    { name: 'late@example.com' },
  ])
  await api.stop()

  await adopt({ undo: true, apply: true })
  assert.equal(await objects(), before)
  assert.equal((await source.sql('select count(*)::text as n from auth.users'))[0]?.['n'], '2')
})

test('where a trigger of a lesser role waits on auth.users, the role of the server writes no row there', async () => {
  const cluster = await startPrivateCluster()
  const source = await hostedSupabase(cluster.url, 'given', postgresMajor)
  await source.sql('create role lesser; grant create on schema public to lesser; grant lesser to given')
  await source.sql(
    `set role lesser; create function public.theirs() returns trigger language plpgsql as $$ begin raise exception 'ran as %', current_user; end $$; reset role;
     create trigger theirs after insert on auth.users for each row execute function public.theirs()`,
  )
  const { notes } = await adopting(adoptSupabase, source.given, [], { 'in-place': true, apply: true })
  assert.equal(notes.find(({ what }) => what === 'auth.users')?.level, 'warning')
  const api = await startServer({ config: { 'database.url': source.given } })
  await api.signUp('late@example.com')
  assert.equal((await source.sql('select count(*)::text as n from auth.users'))[0]?.['n'], '0')
})
