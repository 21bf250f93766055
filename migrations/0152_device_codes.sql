-- The device grant (RFC 8628). Device codes are kept as hashes, user codes, which are short, as keyed ones.
create table svc.oauth_device_codes (
  hash text primary key,
  user_code_hash text not null unique,
  client uuid not null references svc.oauth_clients on delete cascade,
  scope text not null,
  tables text[] not null,
  -- Who decided, and how that user had signed in.
  user_id uuid references svc.users on delete cascade,
  decision text check (decision in ('approve', 'deny')),
  auth_time timestamptz,
  aal text,
  amr text[],
  polled_at timestamptz,
  -- Seconds between two polls.
  pace integer not null,
  used_at timestamptz,
  expires_at timestamptz not null
);
create index oauth_device_codes_client on svc.oauth_device_codes (client, expires_at);
create index oauth_device_codes_user on svc.oauth_device_codes (user_id);
create index oauth_device_codes_expiry on svc.oauth_device_codes (expires_at);

-- Wrong user codes of an account or address in a minute.
create table svc.oauth_device_misses (
  subject text primary key,
  misses integer not null,
  expires_at timestamptz not null
);
create index oauth_device_misses_expiry on svc.oauth_device_misses (expires_at);
