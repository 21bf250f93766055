-- Durable background work (src/db/queue.ts).
create table svc.queue (
  id          bigint generated always as identity primary key,
  kind        text not null,
  -- Items of one group share a concurrency cap, e.g. one webhook endpoint.
  group_key   text not null default '',
  payload     jsonb not null,
  attempts    integer not null default 0,
  -- Nobody may claim the item before this time. A claim moves it to the end of its lease, so one
  -- index range holds exactly what is due: new items, retries, and what a dead process left behind.
  run_at      timestamptz not null default now(),
  lease_until timestamptz,
  worker      text,
  last_error  text,
  created_at  timestamptz not null default now()
);
create index queue_claims on svc.queue (kind, group_key, run_at, id);
create index queue_held on svc.queue (run_at) where worker is not null;

-- Overrides of the built-in mail templates, and templates of the operator's own.
create table svc.email_templates (
  id               uuid primary key default gen_random_uuid(),
  template_key     text not null unique,
  subject_template text not null,
  html_template    text not null,
  enabled          boolean not null default true,
  created_at       timestamptz not null default now(),
  updated_at       timestamptz not null default now()
);

-- Text messages queued per UTC day, for auth.sms_daily_limit.
create table svc.sms_days (
  day  date primary key,
  sent integer not null
);

create table svc.apps (
  id                        uuid primary key default gen_random_uuid(),
  name                      text not null,
  description               text not null default '',
  owner_user_id             uuid references svc.users (id) on delete set null,
  rate_limit_rps            integer not null default 0 check (rate_limit_rps >= 0),
  rate_limit_window_seconds integer not null default 0 check (rate_limit_window_seconds >= 0),
  created_at                timestamptz not null default now(),
  updated_at                timestamptz not null default now()
);
create index apps_owner on svc.apps (owner_user_id);

create table svc.api_keys (
  id             uuid primary key default gen_random_uuid(),
  user_id        uuid not null references svc.users (id) on delete cascade,
  name           text not null,
  key_hash       text not null unique,
  key_prefix     text not null,
  scope          text not null check (scope in ('*', 'readonly', 'readwrite')),
  -- Empty = all tables.
  allowed_tables text[] not null default '{}',
  app_id         uuid references svc.apps (id) on delete set null,
  last_used_at   timestamptz,
  expires_at     timestamptz,
  created_at     timestamptz not null default now(),
  revoked_at     timestamptz
);
create index api_keys_user on svc.api_keys (user_id);
create index api_keys_app on svc.api_keys (app_id);
