import assert from 'node:assert/strict'
import { test } from 'node:test'
import { adopting } from '../../../../test/kit/adopt.ts'
import { listenTo } from '../../../../test/kit/event-stream.ts'
import { startServer } from '../../../../test/kit/kit.ts'
import { OBJECTS_OF_SUPABASE, supabaseDatabase } from '../../../../test/kit/supabase.ts'
import { adoptSupabase } from '../supabase/supabase.ts'

const APP = `
  create table public.notes (id bigserial primary key, owner uuid not null default auth.uid() references auth.users on delete cascade, text text);
  create table public.closed (id int primary key); create table public.bare (id int primary key);
  create function public.who() returns json language sql stable as $$ select json_build_object('uid', auth.uid(), 'role', auth.role()) $$;
  create function public.welcome() returns trigger language plpgsql security definer set search_path = '' as $$ begin
    insert into public.notes (owner, text) values (new.id, 'welcome'); return new; end $$;
  create trigger welcome after insert on auth.users for each row execute function public.welcome();
  alter table public.notes enable row level security;
  create policy own on public.notes to authenticated using (auth.uid() = owner) with check (auth.uid() = owner);
  grant all on public.notes, public.bare to anon, authenticated; grant all on sequence public.notes_id_seq to anon, authenticated;
  alter publication supabase_realtime add table public.notes;`

const source = await supabaseDatabase()
const ann = await source.addUser({
  email: 'ann@example.com',
  email_confirmed_at: '2024-01-01T00:00:00Z',
  password: 'old password of ann',
})
await source.client.query(APP)
await source.client.query(`insert into public.notes (owner, text) values ('${ann}', 'mine'); insert into public.bare values (1); insert into public.closed values (1);
  insert into storage.buckets (id, name) values ('docs', 'docs');
  create policy own on storage.objects for select to authenticated using (bucket_id = 'docs' and auth.uid()::text = owner_id)`)
const adopt = (flags: Record<string, string | true>) =>
  adopting(adoptSupabase, source.url, [], { 'in-place': true, ...flags })
const objects = async () => (await source.sql(OBJECTS_OF_SUPABASE))[0]?.['all']

test('in place nothing of theirs changes, and undo leaves what was there', async () => {
  const before = await objects()
  const plan = await adopt({})
  assert.deepEqual([plan.source, plan.users.total, plan.done], ['supabase in place', 1, undefined])
  assert.equal(await objects(), before)
  assert.equal((await source.sql(`select to_regnamespace('svc')::text as s`))[0]?.['s'], null)

  assert.deepEqual((await adopt({ apply: true })).done, { tables: 0, users: 1, rows: 0, files: 0 })
  assert.deepEqual((await adopt({ apply: true })).done, { tables: 0, users: 0, rows: 0, files: 0 })
  const api = await startServer({ on: { databaseUrl: source.url } })
  const signed = await api.call('POST /api/auth/login', {
    json: { email: 'ann@example.com', password: 'old password of ann' },
  })
  assert.equal(signed.status, 200)
  const token = signed.body.token as string
  assert.deepEqual((await api.call('POST /api/rpc/who', { as: token, json: {} })).body, {
    uid: ann,
    role: 'authenticated',
  })
  const ties = `select svc.owner_column('(auth.uid() = owner)') as owner, svc.written_by_others('public.notes'::regclass)::text as shared`
  // Its trigger writes to it with the rights of its owner.
  assert.deepEqual(await source.sql(ties), [{ owner: 'owner', shared: 'true' }])
  assert.deepEqual((await api.call('POST /api/rpc/who', { json: {} })).body, { uid: null, role: 'anon' })
  const texts = async (as: string) =>
    ((await api.call('GET /api/collections/notes', { as })).body.items as { text: string }[]).map(({ text }) => text)
  assert.deepEqual(await texts(token), ['mine'])
  assert.deepEqual((await api.call('GET /api/collections/notes')).body.items, [])
  assert.equal((await api.call('GET /api/collections/bare')).status, 200)
  assert.notEqual((await api.call('GET /api/collections/closed', { as: token })).status, 200)

  const late = await api.signUp('late@example.com')
  assert.deepEqual(await texts(late.token), ['welcome'])

  // Streams of several callers are judged in one transaction, each by its own claims.
  const streams = [
    await listenTo(api.url, { token, query: { tables: 'notes' } }),
    await listenTo(api.url, { token: late.token, query: { tables: 'notes' } }),
  ]
  for (const [as, text] of [
    [token, 'of ann'],
    [late.token, 'of late'],
    [token, 'end'],
    [late.token, 'end'],
  ] as const)
    assert.equal((await api.call('POST /api/collections/notes', { as, json: { text } })).status, 201)
  for (const [index, own] of ['of ann', 'of late'].entries()) {
    const stream = streams[index]
    await stream?.until(({ data }) => data?.record?.text === 'end')
    assert.deepEqual(
      stream?.changes().map(({ record }) => record.text),
      [own, 'end'],
    )
    stream?.close()
  }
  await api.stop()

  const planned = await adopt({ undo: true })
  assert.ok(planned.removed?.includes('schema svc_supabase'))
  assert.equal((await source.sql(`select count(*)::text as n from svc.adopted where kind = 'dialect'`))[0]?.['n'], '1')
  const undone = await adopt({ undo: true, apply: true })
  assert.deepEqual(
    undone.notes.filter(({ what }) => what.startsWith('auth.users')).map(({ what }) => what),
    [`auth.users ${late.user.id}`],
  )
  assert.equal(await objects(), before)
  assert.equal((await source.sql(`select count(*)::text as n from auth.users`))[0]?.['n'], '2')
  await assert.rejects(adopt({ undo: true, apply: true }), /nothing to undo/)
})
