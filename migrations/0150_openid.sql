-- OpenID Connect: how and when the user signed in, as ID tokens say it. Null for grants of before, and of clients themselves.
alter table svc.oauth_codes
  add column nonce text,
  add column session_id uuid,
  add column auth_time timestamptz,
  add column aal text,
  add column amr text[];
alter table svc.oauth_grants
  add column session_id uuid,
  add column auth_time timestamptz,
  add column aal text,
  add column amr text[];

-- For introspection; unknown of tokens of before.
alter table svc.oauth_access_tokens add column created_at timestamptz;
alter table svc.oauth_access_tokens alter column created_at set default now();
alter table svc.oauth_refresh_tokens add column created_at timestamptz;
alter table svc.oauth_refresh_tokens alter column created_at set default now();

-- Where people are signed in by their session here. No reference to the session or the user: the end of either is what is
-- told to these clients.
create table svc.oauth_logins (
  session_id uuid not null,
  client uuid not null references svc.oauth_clients on delete cascade,
  user_id uuid not null,
  created_at timestamptz not null default now(),
  primary key (session_id, client)
);
create index oauth_logins_client on svc.oauth_logins (client);
