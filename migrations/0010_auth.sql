-- Accounts, sessions and everything that proves who somebody is. Secrets are kept as hashes only.

create table svc.users (
  id uuid primary key default gen_random_uuid(),
  -- In the one form that is compared (trimmed, lower case); null for accounts without an address.
  email text unique,
  phone text unique,
  password_hash text,
  email_verified_at timestamptz,
  is_anonymous boolean not null default false,
  linked_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index users_created_at on svc.users (created_at, id);
create index users_anonymous on svc.users (created_at) where is_anonymous;

create function svc.iso_utc(t timestamptz) returns text
language sql stable as $$
  select to_char(t at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- A user as every response shows it.
create function svc.user_json(u svc.users) returns json
language sql stable as $$
  select json_strip_nulls(json_build_object(
    'id', u.id,
    'email', coalesce(u.email, ''),
    'emailVerified', u.email_verified_at is not null,
    'is_anonymous', u.is_anonymous,
    'createdAt', svc.iso_utc(u.created_at),
    'updatedAt', svc.iso_utc(u.updated_at),
    'phone', u.phone,
    'linked_at', svc.iso_utc(u.linked_at)))
$$;

-- One per sign-in. Its row is the proof that access tokens naming it are still good.
create table svc.sessions (
  id uuid primary key,
  user_id uuid not null references svc.users on delete cascade,
  aal text not null check (aal in ('aal1', 'aal2')),
  amr text[] not null,
  user_agent text not null,
  ip_address text not null,
  created_at timestamptz not null default now(),
  last_active_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index sessions_user on svc.sessions (user_id, last_active_at desc);
create index sessions_expiry on svc.sessions (expires_at);

-- The family of a session's refresh tokens. Rotated ones stay until they expire, so that their reuse is noticed.
create table svc.refresh_tokens (
  hash text primary key,
  session_id uuid not null references svc.sessions on delete cascade,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  rotated_at timestamptz,
  successor_hash text,
  -- The successor, readable only with the token of this row; kept only where a grace time is configured.
  successor_sealed text
);
create index refresh_tokens_session on svc.refresh_tokens (session_id);
create index refresh_tokens_expiry on svc.refresh_tokens (expires_at);

-- Sign-ins that passed the first factor and wait for the second. An MFA token is good while its row is here.
create table svc.pending_logins (
  id uuid primary key,
  user_id uuid not null references svc.users on delete cascade,
  amr text[] not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index pending_logins_user on svc.pending_logins (user_id);
create index pending_logins_expiry on svc.pending_logins (expires_at);

-- Who somebody is at an external provider: the stable subject, never the address.
create table svc.identities (
  provider text not null,
  subject text not null,
  user_id uuid not null references svc.users on delete cascade,
  created_at timestamptz not null default now(),
  primary key (provider, subject)
);
create index identities_user on svc.identities (user_id);

-- Single-use tokens sent by mail; a new one of the same purpose and address replaces the old one.
create table svc.mail_tokens (
  hash text primary key,
  purpose text not null check (purpose in ('verify', 'reset', 'magic_link')),
  email text not null,
  user_id uuid references svc.users on delete cascade,
  expires_at timestamptz not null,
  unique (purpose, email)
);
create index mail_tokens_user on svc.mail_tokens (user_id);
create index mail_tokens_expiry on svc.mail_tokens (expires_at);

create table svc.sms_codes (
  phone text primary key,
  code_hash text not null,
  -- Wrong tries of this code.
  attempts integer not null default 0,
  expires_at timestamptz not null,
  -- Wrong tries since the last right one, whichever code they were for.
  failures integer not null default 0,
  locked_until timestamptz
);
create index sms_codes_expiry on svc.sms_codes (expires_at);

-- Sign-ins that are away at an external provider.
create table svc.oauth_states (
  state_hash text primary key,
  provider text not null,
  code_verifier text not null,
  nonce text not null,
  return_to text not null,
  -- Of the cookie of the browser that went away; no other browser may come back with this state.
  browser_hash text not null,
  expires_at timestamptz not null
);
create index oauth_states_expiry on svc.oauth_states (expires_at);

-- Wrong passwords of an account from one address, and from all of them together (ip '*').
create table svc.login_failures (
  account text not null,
  ip text not null,
  failures integer not null,
  window_start timestamptz not null default now(),
  locked_until timestamptz,
  primary key (account, ip)
);
create index login_failures_age on svc.login_failures (window_start);

-- Readers of revocations remember the oldest transaction they could not see yet; serial ids alone would let them
-- skip one that commits late.
alter table svc.revocations add column xid xid8 not null default pg_current_xact_id();
create index revocations_xid on svc.revocations (xid);
