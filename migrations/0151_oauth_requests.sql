-- Pushed authorization requests (RFC 9126): the parameters that a request_uri stands for, until the first authorize.
create table svc.oauth_pushed (
  hash text primary key,
  client uuid not null references svc.oauth_clients on delete cascade,
  parameters jsonb not null,
  expires_at timestamptz not null
);
create index oauth_pushed_client on svc.oauth_pushed (client, expires_at);
create index oauth_pushed_expiry on svc.oauth_pushed (expires_at);

-- What a page showed to a browser that is signed in by its cookie: the form token of its answer is good once.
create table svc.oauth_prompts (
  hash text primary key,
  kind text not null check (kind in ('consent', 'logout')),
  user_id uuid not null references svc.users on delete cascade,
  session_id uuid not null,
  request jsonb not null,
  expires_at timestamptz not null
);
create index oauth_prompts_user on svc.oauth_prompts (user_id, expires_at);
create index oauth_prompts_expiry on svc.oauth_prompts (expires_at);
