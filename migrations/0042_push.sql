-- Push notifications: where people can be reached, and what was sent there.
create table svc.push_devices (
  id                uuid primary key default gen_random_uuid(),
  app_id            uuid not null references svc.apps on delete cascade,
  user_id           uuid not null references svc.users on delete cascade,
  provider          text not null check (provider in ('fcm', 'apns')),
  platform          text not null check (platform in ('android', 'ios')),
  token             text not null,
  device_name       text,
  is_active         boolean not null default true,
  last_refreshed_at timestamptz not null default now(),
  last_used         timestamptz,
  created_at        timestamptz not null default now(),
  updated_at        timestamptz not null default now(),
  unique (app_id, provider, token)
);
create index push_devices_of_user on svc.push_devices (user_id, app_id);
create index push_devices_newest on svc.push_devices (created_at desc, id desc);

create table svc.push_deliveries (
  id                  uuid primary key default gen_random_uuid(),
  device_token_id     uuid not null references svc.push_devices on delete cascade,
  job_id              uuid,
  app_id              uuid not null,
  user_id             uuid not null,
  provider            text not null,
  title               text not null,
  body                text not null,
  data                jsonb,
  status              text not null default 'pending' check (status in ('pending', 'sent', 'failed', 'invalid_token')),
  error_code          text,
  error_message       text,
  provider_message_id text,
  sent_at             timestamptz,
  created_at          timestamptz not null default now(),
  updated_at          timestamptz not null default now()
);
create index push_deliveries_newest on svc.push_deliveries (created_at desc, id desc);
create index push_deliveries_of_user on svc.push_deliveries (user_id, created_at desc);
create index push_deliveries_of_device on svc.push_deliveries (device_token_id);
create index push_deliveries_oldest on svc.push_deliveries (updated_at);
