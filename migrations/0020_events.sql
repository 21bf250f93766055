-- Readers of the change log, and webhooks.

-- One row: everything up to trimmed_id may be gone from svc.changes.
create table svc.change_horizon (
  only_row boolean primary key default true check (only_row),
  trimmed_xid xid8 not null default '0',
  trimmed_id bigint not null default 0
);
insert into svc.change_horizon default values;

-- Readers whose work must happen once over all processes keep their position here.
create table svc.change_readers (
  name text primary key,
  xid xid8 not null,
  id bigint not null,
  moved_at timestamptz not null default now()
);

-- A dump restored into another cluster brings changes and positions with transaction ids of its former life, which the
-- new cluster has yet to reach. They are stamped with a transaction of this life, so that no position of the former one
-- is taken for one of this one. The order is that of the ids, which the dump brought along.
-- One statement has one snapshot, and what this cluster wrote is below its xmax; so each statement asks for itself, or
-- a change that is committed between two of them would be taken for a foreign one.
create function svc.has_foreign_changes() returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from (select xid from svc.changes order by id desc limit 100) newest
                 where xid >= pg_snapshot_xmax(pg_current_snapshot()))
      or exists (select from svc.change_readers where xid >= pg_snapshot_xmax(pg_current_snapshot()))
      or exists (select from svc.change_horizon where trimmed_xid >= pg_snapshot_xmax(pg_current_snapshot()))
$$;

create function svc.adopt_changes() returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if not svc.has_foreign_changes() then
    return false;
  end if;
  perform from svc.change_horizon for update;
  if not svc.has_foreign_changes() then
    return false; -- another process did it meanwhile
  end if;
  update svc.changes set xid = pg_current_xact_id() where xid >= pg_snapshot_xmax(pg_current_snapshot());
  update svc.change_readers set xid = pg_current_xact_id() where xid >= pg_snapshot_xmax(pg_current_snapshot());
  update svc.change_horizon set trimmed_xid = pg_current_xact_id();
  update svc.webhooks set since = pg_current_snapshot();
  return true;
end $$;

create table svc.webhooks (
  id uuid primary key default gen_random_uuid(),
  url text not null,
  -- Encrypted; null = unsigned.
  secret text,
  events text[] not null default '{create,update,delete}',
  -- Empty = all; unqualified or schema.table.
  tables text[] not null default '{}',
  enabled boolean not null default true,
  -- What was committed before this moment does not fire, however late the log is read.
  since pg_snapshot not null default pg_current_snapshot(),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

-- One row per attempt. The webhook's queue rows are in svc.queue.
create table svc.webhook_deliveries (
  id uuid primary key default gen_random_uuid(),
  webhook_id uuid not null references svc.webhooks on delete cascade,
  event_id text not null,
  event_action text not null,
  event_table text not null,
  success boolean not null,
  status_code integer,
  attempt integer not null,
  duration_ms integer not null,
  error text,
  request_body text not null,
  response_body text not null,
  delivered_at timestamptz not null default now()
);
create index webhook_deliveries_newest on svc.webhook_deliveries (webhook_id, delivered_at desc, id desc);
create index webhook_deliveries_failed on svc.webhook_deliveries (webhook_id, delivered_at desc, id desc) where not success;
create index webhook_deliveries_at on svc.webhook_deliveries (delivered_at);
