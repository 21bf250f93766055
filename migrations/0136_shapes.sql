-- Statements that callers caused, without values: how often each ran. Hourly, from every process.
create table svc.shapes (
  id text primary key,
  role text not null,
  statement text not null,
  runs bigint not null,
  first_seen timestamptz not null default now(),
  last_seen timestamptz not null default now()
);
create index shapes_age on svc.shapes (last_seen);
