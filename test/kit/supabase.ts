import { randomUUID } from 'node:crypto'
import { hashSync } from '@node-rs/bcrypt'
import type pg from 'pg'
import { openConnection } from '../../src/db/protocol/driver.ts'
import { atEnd } from './at-end.ts'
import { createEmptyDatabase } from './cluster.ts'

const ROLES = ['anon', 'authenticated', 'service_role', 'supabase_auth_admin', 'supabase_storage_admin']

const BASE = `
  do $$ declare r text; begin
    foreach r in array '{${ROLES.join(',')}}'::text[] loop
      begin
        if not exists (select from pg_roles where rolname = r) then execute format('create role %I nologin noinherit', r); end if;
      exception when duplicate_object or unique_violation then null; end;
    end loop;
  end $$;
  create schema extensions; create schema auth authorization supabase_auth_admin; create schema storage authorization supabase_storage_admin;
  create extension "uuid-ossp" with schema extensions; create extension pgcrypto with schema extensions;
  grant usage on schema public, extensions, auth, storage to anon, authenticated, service_role;
  create publication supabase_realtime;`

const AUTH = `
  create type auth.factor_type as enum ('totp', 'webauthn', 'phone');
  create type auth.factor_status as enum ('unverified', 'verified');
  create type auth.aal_level as enum ('aal1', 'aal2', 'aal3');
  create table auth.users (instance_id uuid, id uuid primary key, aud varchar(255), role varchar(255), email varchar(255),
    encrypted_password varchar(255), email_confirmed_at timestamptz, invited_at timestamptz, confirmation_token varchar(255),
    confirmation_sent_at timestamptz, recovery_token varchar(255), recovery_sent_at timestamptz, email_change_token_new varchar(255),
    email_change varchar(255), email_change_sent_at timestamptz, last_sign_in_at timestamptz, raw_app_meta_data jsonb, raw_user_meta_data jsonb,
    is_super_admin boolean, created_at timestamptz, updated_at timestamptz, phone text default null unique, phone_confirmed_at timestamptz,
    phone_change text default '', phone_change_token varchar(255) default '', phone_change_sent_at timestamptz,
    confirmed_at timestamptz generated always as (least(email_confirmed_at, phone_confirmed_at)) stored,
    email_change_token_current varchar(255) default '', email_change_confirm_status smallint default 0 check (email_change_confirm_status between 0 and 2),
    banned_until timestamptz, reauthentication_token varchar(255) default '', reauthentication_sent_at timestamptz,
    is_sso_user boolean not null default false, deleted_at timestamptz, is_anonymous boolean not null default false);
  create unique index users_email_partial_key on auth.users (email) where is_sso_user = false;
  create table auth.identities (provider_id text not null, user_id uuid not null references auth.users on delete cascade, identity_data jsonb not null,
    provider text not null, last_sign_in_at timestamptz, created_at timestamptz, updated_at timestamptz,
    email text generated always as (lower(identity_data ->> 'email')) stored, id uuid primary key default gen_random_uuid(), unique (provider_id, provider));
  create table auth.sessions (id uuid primary key, user_id uuid not null references auth.users on delete cascade, created_at timestamptz, updated_at timestamptz,
    factor_id uuid, aal auth.aal_level, not_after timestamptz);
  create table auth.refresh_tokens (instance_id uuid, id bigserial primary key, token varchar(255) unique, user_id varchar(255), revoked boolean,
    created_at timestamptz, updated_at timestamptz, parent varchar(255), session_id uuid references auth.sessions on delete cascade);
  create table auth.mfa_factors (id uuid primary key, user_id uuid not null references auth.users on delete cascade, friendly_name text,
    factor_type auth.factor_type not null, status auth.factor_status not null, created_at timestamptz not null, updated_at timestamptz not null,
    secret text, phone text, last_challenged_at timestamptz unique, web_authn_credential jsonb, web_authn_aaguid uuid);
  create table auth.saml_providers (id uuid primary key, entity_id text not null unique, metadata_xml text not null);
  create function auth.uid() returns uuid language sql stable as $$ select coalesce(nullif(current_setting('request.jwt.claim.sub', true), ''),
    (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'))::uuid $$;
  create function auth.role() returns text language sql stable as $$ select coalesce(nullif(current_setting('request.jwt.claim.role', true), ''),
    (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role'))::text $$;
  create function auth.email() returns text language sql stable as $$ select coalesce(nullif(current_setting('request.jwt.claim.email', true), ''),
    (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email'))::text $$;
  create function auth.jwt() returns jsonb language sql stable as $$ select coalesce(nullif(current_setting('request.jwt.claim', true), ''),
    nullif(current_setting('request.jwt.claims', true), ''))::jsonb $$;
  alter table auth.users enable row level security; alter table auth.identities enable row level security; alter table auth.mfa_factors enable row level security;
  alter table auth.users owner to supabase_auth_admin; alter table auth.identities owner to supabase_auth_admin; alter table auth.mfa_factors owner to supabase_auth_admin;`

const STORAGE = `
  create type storage.buckettype as enum ('STANDARD', 'ANALYTICS', 'VECTOR');
  create table storage.buckets (id text primary key, name text not null unique, owner uuid, created_at timestamptz default now(), updated_at timestamptz default now(),
    public boolean default false, avif_autodetection boolean default false, file_size_limit bigint, allowed_mime_types text[], owner_id text,
    type storage.buckettype not null default 'STANDARD');
  create table storage.objects (id uuid not null default gen_random_uuid(), bucket_id text references storage.buckets, name text, owner uuid,
    created_at timestamptz default now(), updated_at timestamptz default now(), last_accessed_at timestamptz default now(), metadata jsonb,
    path_tokens text[] generated always as (string_to_array(name, '/')) stored, version text, owner_id text, user_metadata jsonb, level integer,
    archived_at timestamptz, is_delete_marker boolean not null default false, is_versioned boolean not null default false);
  create table storage.prefixes (bucket_id text references storage.buckets, name text collate "C" not null, level integer, primary key (bucket_id, name));
  create table storage.s3_multipart_uploads (id text primary key, bucket_id text references storage.buckets, key text collate "C" not null, version text not null);
  create table storage.buckets_vectors (id text primary key, type storage.buckettype not null default 'VECTOR');
  create function storage.foldername(name text) returns text[] language plpgsql as $$ declare _parts text[]; begin
    select string_to_array(name, '/') into _parts; return _parts[1:array_length(_parts, 1) - 1]; end $$;
  create function storage.filename(name text) returns text language plpgsql as $$ declare _parts text[]; begin
    select string_to_array(name, '/') into _parts; return _parts[array_length(_parts, 1)]; end $$;
  alter table storage.objects enable row level security; alter table storage.buckets enable row level security;
  grant all on storage.objects, storage.buckets to anon, authenticated, service_role;
  alter table storage.objects owner to supabase_storage_admin; alter table storage.buckets owner to supabase_storage_admin;`

/** The layout before December 2021: one moment of confirmation, claims one by one, identities by the provider's id. */
const EARLY = `
  create table auth.users (instance_id uuid, id uuid not null unique, aud varchar(255), role varchar(255), email varchar(255) unique,
    encrypted_password varchar(255), confirmed_at timestamptz, invited_at timestamptz, confirmation_token varchar(255), confirmation_sent_at timestamptz,
    recovery_token varchar(255), recovery_sent_at timestamptz, email_change_token varchar(255), email_change varchar(255), email_change_sent_at timestamptz,
    last_sign_in_at timestamptz, raw_app_meta_data jsonb, raw_user_meta_data jsonb, is_super_admin boolean, created_at timestamptz, updated_at timestamptz, primary key (id));
  create function auth.uid() returns uuid language sql stable as $$ select nullif(current_setting('request.jwt.claim.sub', true), '')::uuid $$;
  create function auth.role() returns text language sql stable as $$ select nullif(current_setting('request.jwt.claim.role', true), '')::text $$;
  alter table auth.users owner to supabase_auth_admin;`

const rights = (acl: string, kind: string, owner: string): string =>
  `(select string_agg(x.grantee || x.privilege_type, ',' order by x.grantee, x.privilege_type) from aclexplode(coalesce(${acl}, acldefault(${kind}, ${owner}))) x)`

/** Everything of the schemas that are not ours, as text. */
export const OBJECTS_OF_SUPABASE = `
  select string_agg(t, E'\\n' order by t collate "C") as all from (
    select concat_ws(' ', 'relation', c.oid::regclass, c.relkind, pg_get_userbyid(c.relowner), c.relrowsecurity, ${rights('c.relacl', `case c.relkind when 'S' then 's'::"char" else 'r' end`, 'c.relowner')}) as t
      from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname in ('public', 'auth', 'storage', 'extensions') and c.relkind in ('r', 'v', 'S')
    union all select concat_ws(' ', 'function', p.oid::regprocedure, md5(p.prosrc), ${rights('p.proacl', `'f'`, 'p.proowner')}) from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in ('public', 'auth', 'storage')
    union all select concat_ws(' ', 'policy', polname, polrelid::regclass, pg_get_expr(polqual, polrelid)) from pg_policy where polrelid::regclass::text !~ '^svc'
    union all select concat_ws(' ', 'trigger', tgname, tgrelid::regclass) from pg_trigger where not tgisinternal and tgrelid::regclass::text !~ '^svc'
    union all select concat_ws(' ', 'schema', n.nspname, ${rights('n.nspacl', `'n'`, 'n.nspowner')}) from pg_namespace n where n.nspname in ('public', 'auth', 'storage', 'extensions', 'svc_supabase')
  ) x`

type SupabaseDatabase = {
  url: string
  client: pg.Client
  /** A user of auth.users; resolves to its id. */
  addUser(user: Record<string, unknown> & { password?: string }): Promise<string>
  sql: (text: string, values?: unknown[]) => Promise<Record<string, string | null>[]>
}

/**
 * What Supabase's programs of 2025 and later have besides: tables that hold nothing of an app, functions that triggers of apps call,
 * and schemas that even the role that is given out may not use.
 */
const NEWEST = `
  create table auth.custom_oauth_providers (id uuid primary key default gen_random_uuid(), identifier text not null, client_secret text not null);
  create table auth.webauthn_credentials (id uuid primary key default gen_random_uuid(), user_id uuid not null references auth.users on delete cascade, public_key bytea not null);
  create schema vault; create table vault.secrets (id uuid primary key default gen_random_uuid(), secret text not null);
  create schema graphql; create function graphql.resolve() returns int language sql as 'select 1'; revoke all on function graphql.resolve() from public;
  create function extensions.only_admins() returns int language sql as 'select 1'; revoke all on function extensions.only_admins() from public;
  create schema realtime; create table realtime.messages (id uuid not null default gen_random_uuid(), topic text not null, inserted_at timestamp not null default now(),
    primary key (id, inserted_at)) partition by range (inserted_at);
  create function realtime.broadcast_changes(topic_name text, event_name text, operation text, table_name text, table_schema text, new record, old record,
    level text default 'ROW') returns void language plpgsql as $$ begin end $$;
  grant usage on schema realtime to anon, authenticated;
  create function storage.protect_delete() returns trigger language plpgsql as $$ begin
    raise exception 'Direct deletion from storage tables is not allowed. Use the Storage API instead.' using errcode = '42501'; end $$;
  create trigger protect_objects_delete before delete on storage.objects for each statement execute function storage.protect_delete();
  alter table auth.custom_oauth_providers enable row level security; alter table auth.webauthn_credentials enable row level security;`

/** The role that is given out since 2025: it reads and writes auth.users, and may neither alter it nor let others. */
const givenOut = (role: string, major: number): string => `
  create role ${role} login nosuperuser createrole createdb bypassrls;
  grant anon, authenticated, service_role to ${role}${major >= 16 ? ' with admin option' : ''};
  grant usage on schema auth, storage, extensions, realtime to ${role}; grant all on schema public to ${role} with grant option;
  grant all on all tables in schema auth, storage, realtime to ${role}; grant all on all routines in schema auth, storage, realtime to ${role};
  grant select on all tables in schema auth to ${role} with grant option; grant references on auth.users to ${role};
  alter publication supabase_realtime owner to ${role}`

/** A database by the published layout of Supabase's auth and storage. */
export async function supabaseDatabase({
  isEarly = false,
  isNewest = false,
}: {
  isEarly?: boolean
  isNewest?: boolean
} = {}): Promise<SupabaseDatabase> {
  const { url, drop } = await createEmptyDatabase()
  atEnd(drop)
  const database = await layOut(url, isEarly)
  if (isNewest) await database.client.query(NEWEST)
  return database
}

/** The newest layout in a cluster of its own, with the role that Supabase gives out: `given` is its address. */
export async function hostedSupabase(
  cluster: string,
  role: string,
  major: number,
): Promise<SupabaseDatabase & { given: string }> {
  const database = await layOut(cluster, false)
  await database.client.query(NEWEST)
  await database.client.query(givenOut(role, major))
  const given = cluster.replace(/^(postgres(?:ql)?:\/\/)[^@]*@/, `$1${role}@`)
  await database.client.query(
    `do $$ begin execute format('alter database %I owner to ${role}', current_database()); end $$; alter schema public owner to ${role}`,
  )
  return { ...database, given }
}

async function layOut(url: string, isEarly: boolean): Promise<SupabaseDatabase> {
  const client = await openConnection({ url })
  atEnd(() => client.end())
  await client.query(BASE)
  if (isEarly) await client.query(EARLY)
  else {
    await client.query(AUTH)
    await client.query(STORAGE)
  }
  return {
    url,
    client,
    sql: async (text, values = []) => (await client.query(text, values)).rows as Record<string, string | null>[],
    async addUser({ password, ...given }) {
      const row = {
        id: randomUUID(),
        aud: 'authenticated',
        role: 'authenticated',
        raw_app_meta_data: { provider: 'email', providers: ['email'] },
        raw_user_meta_data: {},
        created_at: '2024-02-03T04:05:06Z',
        updated_at: '2024-02-03T04:05:06Z',
        ...(!isEarly && { is_sso_user: false, is_anonymous: false }),
        ...(password !== undefined && { encrypted_password: hashSync(password, 4) }),
        ...given,
      }
      const names = Object.keys(row)
      await client.query(
        `insert into auth.users (${names.join(', ')}) select ${names.join(', ')} from jsonb_populate_record(null::auth.users, $1)`,
        [JSON.stringify(row)],
      )
      return String(row.id)
    },
  }
}
