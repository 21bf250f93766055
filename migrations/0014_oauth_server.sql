-- The OAuth 2.0 authorization server. Codes, tokens and secrets are kept as hashes only.

create table svc.oauth_clients (
  id uuid primary key default gen_random_uuid(),
  client_id text not null unique,
  app_id uuid references svc.apps (id) on delete set null,
  name text not null,
  client_type text not null check (client_type in ('confidential', 'public')),
  -- Null for public clients.
  secret_hash text,
  redirect_uris text[] not null,
  scopes text[] not null,
  total_grants bigint not null default 0,
  last_token_issued_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  revoked_at timestamptz
);
create index oauth_clients_newest on svc.oauth_clients (created_at desc, id desc);
create index oauth_clients_app on svc.oauth_clients (app_id);

-- A consent counts only for exactly what was shown.
create table svc.oauth_consents (
  user_id uuid not null references svc.users on delete cascade,
  client uuid not null references svc.oauth_clients on delete cascade,
  redirect_uri text not null,
  scope text not null,
  -- Sorted.
  tables text[] not null,
  created_at timestamptz not null default now(),
  primary key (user_id, client, redirect_uri, scope, tables)
);

-- What a client was given: the family of all tokens that came of one code or one pair of credentials.
create table svc.oauth_grants (
  id uuid primary key,
  client uuid not null references svc.oauth_clients on delete cascade,
  -- Null: the client acts for itself.
  user_id uuid references svc.users on delete cascade,
  scope text not null,
  tables text[] not null,
  created_at timestamptz not null default now()
);
create index oauth_grants_client on svc.oauth_grants (client);
create index oauth_grants_user on svc.oauth_grants (user_id);
create index oauth_grants_age on svc.oauth_grants (created_at);

-- Used ones stay until they expire, so that a second use is noticed.
create table svc.oauth_codes (
  hash text primary key,
  client uuid not null references svc.oauth_clients on delete cascade,
  user_id uuid not null references svc.users on delete cascade,
  redirect_uri text not null,
  challenge text not null,
  scope text not null,
  tables text[] not null,
  expires_at timestamptz not null,
  used_at timestamptz,
  -- Not a reference: the grant may end before the code expires.
  grant_id uuid
);
create index oauth_codes_expiry on svc.oauth_codes (expires_at);

create table svc.oauth_access_tokens (
  id uuid primary key,
  hash text not null unique,
  grant_id uuid not null references svc.oauth_grants on delete cascade,
  expires_at timestamptz not null
);
create index oauth_access_tokens_grant on svc.oauth_access_tokens (grant_id);
create index oauth_access_tokens_expiry on svc.oauth_access_tokens (expires_at);

-- Rotated ones stay until they expire, so that their reuse is noticed.
create table svc.oauth_refresh_tokens (
  hash text primary key,
  grant_id uuid not null references svc.oauth_grants on delete cascade,
  expires_at timestamptz not null,
  rotated_at timestamptz
);
create index oauth_refresh_tokens_grant on svc.oauth_refresh_tokens (grant_id);
create index oauth_refresh_tokens_expiry on svc.oauth_refresh_tokens (expires_at);

-- Ends grants and everything that came of them, and tells every process.
create function svc.end_oauth_grants(ids uuid[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.revoke('oauth_token', t.id::text) from svc.oauth_access_tokens t where t.grant_id = any(ids);
  delete from svc.oauth_grants where id = any(ids);
end $$;
