import { Ident } from '../../../db/sql.ts'
import type { SourceColumn } from '../database/catalogue.ts'
import { SUPABASE_HELPERS } from '../database/owner.ts'

const SAFE = `set search_path = pg_catalog, pg_temp`
const quote = (name: string): string => new Ident(name).quoted

/** For a copy: what Supabase's functions of these names answer, for our callers. */
export const AUTH_FUNCTIONS: readonly string[] = [
  `create or replace function auth.uid() returns uuid language sql stable parallel safe as $f$ select svc.uid() $f$`,
  `create or replace function auth.email() returns text language sql stable parallel safe as $f$ select svc.email() $f$`,
  `create or replace function auth.role() returns text language sql stable parallel safe as $f$
     select case pg_catalog.current_setting('role', true) when 'svc_anon' then 'anon' when 'svc_authenticated' then 'authenticated' end $f$`,
  `create or replace function auth.jwt() returns jsonb language sql stable ${SAFE} as $f$ select svc.jwt_claims()::jsonb $f$`,
]

/** Triggers that announce changes call these; without them no row could be written. Nothing hears what they say. */
export const REALTIME_FUNCTIONS: readonly string[] = [
  `create or replace function realtime.topic() returns text language sql stable as $f$ select null::text $f$`,
  `create or replace function realtime.send(payload jsonb, event text, topic text, private boolean default true) returns void language sql as $f$ select $f$`,
  `create or replace function realtime.broadcast_changes(topic_name text, event_name text, operation text, table_name text, table_schema text,
     new record, old record, level text default 'ROW') returns void language plpgsql as $f$ begin end $f$`,
]

/** A table of the source's columns, without what only Supabase's own programs need. */
export function authUsersTable(columns: readonly SourceColumn[]): string {
  const defined = columns.map(({ name, type, generated, default: value }) => {
    const made = generated === 's' && value !== null ? ` generated always as (${value}) stored` : ''
    return `${quote(name)} ${type}${made}`
  })
  return `create table if not exists auth.users (${defined.join(', ')}, primary key (id))`
}

/** What a row of auth.users takes from an account, as expressions over `a`, a row of svc.users. */
const MIRRORED: ReadonlyMap<string, string> = new Map([
  ['email', 'a.email'],
  ['phone', `nullif(ltrim(a.phone, '+'), '')`],
  ['email_confirmed_at', 'a.email_verified_at'],
  ['phone_confirmed_at', 'case when a.phone is not null then a.created_at end'],
  ['raw_user_meta_data', 'a.metadata'],
  [
    'raw_app_meta_data',
    `case when a.is_anonymous then '{}'::jsonb when a.email is null and a.phone is not null then '{"provider":"phone","providers":["phone"]}'
       else '{"provider":"email","providers":["email"]}' end || a.app_metadata`,
  ],
  ['is_anonymous', 'a.is_anonymous'],
  ['banned_until', `case when a.disabled_at is not null then 'infinity'::timestamptz end`],
  ['updated_at', 'a.updated_at'],
])

/** Set once, when the account is made. Supabase's own program cannot read a row with a null among its tokens. */
const CONSTANT: ReadonlyMap<string, string> = new Map([
  ['instance_id', `'00000000-0000-0000-0000-000000000000'::uuid`],
  ['aud', `'authenticated'`],
  ['role', `'authenticated'`],
  ['created_at', 'a.created_at'],
  ...[
    ...[
      'encrypted_password',
      'confirmation_token',
      'recovery_token',
      'email_change',
      'email_change_token',
      'email_change_token_new',
    ],
    ...['email_change_token_current', 'phone_change', 'phone_change_token', 'reauthentication_token'],
  ].map((name): [string, string] => [name, `''`]),
])

/** Of an account's row: what is written again when it changes. */
const WATCHED = ['email', 'phone', 'email_verified_at', 'metadata', 'app_metadata', 'is_anonymous', 'disabled_at']

/**
 * Who registers here has a row in auth.users too, so that foreign keys to it and triggers on it work. It is written as the
 * role that owns what came along, and so run the triggers on it.
 */
export function mirrorStatements(columns: readonly SourceColumn[]): { owner: string[]; server: string[] } {
  const there = new Set(columns.filter(({ generated }) => generated === '').map(({ name }) => name))
  // Before the columns of 2021, the one moment of confirmation was a plain column.
  const mirrored = new Map(
    [...MIRRORED, ['confirmed_at', 'a.email_verified_at']].filter(([name = '']) => there.has(name)) as [
      string,
      string,
    ][],
  )
  const made = new Map([...CONSTANT].filter(([name]) => there.has(name)))
  const all = [...mirrored, ...made]
  const body = `
    declare a svc.users;
    begin
      if tg_op = 'DELETE' then a := old; else a := new; end if;
      if pg_catalog.current_setting('svc.adopting', true) = 'on' then return null; end if;
      if tg_op = 'DELETE' then
        delete from auth.users u where u.id = a.id;
      elsif tg_op = 'INSERT' then
        insert into auth.users (id, ${all.map(([name]) => quote(name)).join(', ')}) values (a.id, ${all.map(([, value]) => value).join(', ')})
        on conflict do nothing;
      else
        update auth.users u set ${[...mirrored].map(([name, value]) => `${quote(name)} = ${value}`).join(', ')} where u.id = a.id;
      end if;
      return null;
    end`
  const changed = WATCHED.map((name) => `old.${name} is distinct from new.${name}`).join(' or ')
  const call = `execute function ${SUPABASE_HELPERS}.keep_user()`
  return {
    owner: [
      `create or replace function ${SUPABASE_HELPERS}.keep_user() returns trigger language plpgsql security definer set search_path = auth, pg_temp as $f$ ${body} $f$`,
    ],
    server: [
      `create or replace trigger supabase_user after insert or delete on svc.users for each row ${call}`,
      `create or replace trigger supabase_user_changed after update of ${WATCHED.join(', ')} on svc.users for each row when (${changed}) ${call}`,
    ],
  }
}
