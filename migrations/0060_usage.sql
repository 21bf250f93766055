-- What was used, per tenant and hour. A tenant is an app; traffic without an app's key belongs to the nil UUID.
create table svc.usage_hours (
  tenant_id     uuid not null,
  hour          timestamptz not null,
  requests      bigint not null default 0,
  bandwidth     bigint not null default 0,
  functions     bigint not null default 0,
  job_runs      bigint not null default 0,
  realtime_peak bigint not null default 0,
  -- The most bytes that were stored within the hour.
  storage       bigint not null default 0,
  primary key (hour, tenant_id)
);

create table svc.usage_endpoints (
  tenant_id uuid not null,
  hour      timestamptz not null,
  -- `METHOD pattern`
  endpoint  text not null,
  status    integer not null,
  requests  bigint not null default 0,
  primary key (hour, tenant_id, endpoint, status)
);

-- How many streams each process has open; their sum is what the peak of the hour is held against.
create table svc.usage_streams (
  node      uuid not null,
  tenant_id uuid not null,
  open      bigint not null,
  at        timestamptz not null default now(),
  primary key (node, tenant_id)
);

-- The app whose key stored these bytes; without one, and once the app is gone, they count for the nil UUID.
alter table svc.storage_objects add column app_id uuid;
