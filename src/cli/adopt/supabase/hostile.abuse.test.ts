import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { adopting } from '../../../../test/kit/adopt.ts'
import { withoutInvokerViews as skip } from '../../../../test/kit/cluster.ts'
import { eventually, startServer } from '../../../../test/kit/kit.ts'
import { supabaseDatabase } from '../../../../test/kit/supabase.ts'
import { adoptSupabase } from './supabase.ts'

const source = await supabaseDatabase()
const api = await startServer()
const home = mkdtempSync(join(tmpdir(), 'svc-hostile-'))
after(() => rmSync(home, { recursive: true, force: true }))
writeFileSync(join(home, 'secret'), 'xx')

const victim = await source.addUser({ email: 'victim@example.com', email_confirmed_at: '2024-01-01T00:00:00Z' })
await source.addUser({
  email: 'mallory@example.com',
  email_confirmed_at: '2024-01-01T00:00:00Z',
  password: 'the password of mallory',
  raw_user_meta_data: { role: 'service_role', sub: victim, app_metadata: { plan: 'gold' }, aud: 'x' },
})
const taken = await source.addUser({
  email: 'taken@example.com',
  email_confirmed_at: '2024-01-01T00:00:00Z',
  password: 'the password of source',
})
const squatted = await source.addUser({
  email: 'squatted@example.com',
  email_confirmed_at: '2024-01-01T00:00:00Z',
  password: 'the password of source',
})
await source.client.query(`
  create table public."we""ird'; drop table x; --" ("a""b" int primary key, "select" text); insert into public."we""ird'; drop table x; --" values (1, 'x');
  alter table public."we""ird'; drop table x; --" enable row level security;
  create policy "it's ""mine""; --" on public."we""ird'; drop table x; --" for select to authenticated using ((auth.jwt() ->> 'role') = 'service_role' or (auth.jwt() ->> 'sub') = '${victim}');
  create table public.seen (who text, is_super boolean); grant select on public."we""ird'; drop table x; --", public.seen to anon, authenticated;
  create function public.look() returns trigger language plpgsql as $$ begin
    insert into public.seen select current_user, rolsuper or rolbypassrls from pg_roles where rolname = current_user; return new; end $$;
  create trigger look after insert on auth.users for each row execute function public.look();`)
await source.client.query(`
  create function public.climb() returns text language plpgsql security definer as $$ begin
    begin execute 'create role climber superuser'; return 'up'; exception when others then return sqlstate; end; end $$;
  create function public.away() returns text language plpgsql security definer as $$ begin
    begin reset role; execute 'set role postgres'; return current_user; exception when others then return sqlstate; end; end $$;
  create function public.claims() returns json language sql stable as $$ select auth.jwt()::json $$;
  insert into storage.buckets (id, name, public) values ('it''s', 'it''s', true), ('..', '..', true);
  insert into storage.objects (bucket_id, name) values ('it''s', '../secret'), ('..', 'secret'), ('it''s', '/etc/passwd');
  create policy "o'b" on storage.objects for select using (bucket_id = 'it''s' and auth.role() = 'service_role')`)

test('names are data, and code that comes along stays small', { skip }, async () => {
  await api.signUp('taken@example.com', 'the password of here')
  await api.sql(`update svc.users set email_verified_at = now() where email = 'taken@example.com'`)
  const squatter = await api.signUp('squatted@example.com', 'the password of here')
  const { notes, done } = await adopting(adoptSupabase, api.databaseUrl, [source.url], { apply: true, files: home })
  assert.deepEqual([done?.['users'], done?.['files']], [4, 0])
  assert.equal((await api.sql(`select "a""b" from public."we""ird'; drop table x; --"`)).length, 1)
  assert.deepEqual(
    notes
      .filter(({ what }) => what.includes('secret') || what.includes('passwd'))
      .map(({ why }) => why)
      .sort(),
    ['is no name for a file here', 'is no name for a file here', 'lies outside of the given folder'],
  )

  const login = (email: string, password: string) => api.call('POST /api/auth/login', { json: { email, password } })
  const { body } = await login('mallory@example.com', 'the password of mallory')
  const claims = (await api.call('POST /api/rpc/claims', { as: body.token, json: {} })).body
  assert.deepEqual(
    [claims.role, claims.sub === victim, claims.aud, claims.app_metadata.plan],
    ['authenticated', false, 'authenticated', undefined],
  )
  assert.equal((await api.call('POST /api/rpc/climb', { json: {} })).body, '42501')
  assert.notEqual((await api.call('POST /api/rpc/away', { json: {} })).body, 'postgres')

  // A verified account here keeps its address and password; an unverified one loses both.
  assert.equal((await login('taken@example.com', 'the password of here')).status, 200)
  assert.equal((await login('taken@example.com', 'the password of source')).status, 401)
  assert.deepEqual(await api.sql(`select email, password_hash from svc.users where id = '${taken}'`), [
    { email: null, password_hash: null },
  ])
  const joined = await login('squatted@example.com', 'the password of source')
  assert.deepEqual([joined.status, joined.body.user?.id], [200, squatted])
  assert.equal((await login('squatted@example.com', 'the password of here')).status, 401)
  await eventually(async () => assert.equal((await api.call('GET /api/auth/me', { as: squatter.token })).status, 401))

  await api.signUp('later@example.com')
  assert.deepEqual(await api.sql('select who, is_super::text from public.seen'), [
    { who: 'svc_adopted', is_super: 'false' },
  ])
})
