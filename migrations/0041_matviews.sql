-- Materialized views that the server refreshes.
create table svc.matviews (
  id                       uuid primary key default gen_random_uuid(),
  schema_name              text not null,
  view_name                text not null,
  refresh_mode             text not null check (refresh_mode in ('standard', 'concurrent')),
  last_refresh_at          timestamptz,
  last_refresh_duration_ms integer,
  last_refresh_status      text check (last_refresh_status in ('success', 'error')),
  last_refresh_error       text,
  created_at               timestamptz not null default now(),
  updated_at               timestamptz not null default now(),
  unique (schema_name, view_name)
);

-- Until the end of the transaction nobody else refreshes the view through the server, on any process.
create function svc.lock_refresh(view_oid oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if not pg_try_advisory_xact_lock(1937138546, view_oid::int) then
    raise exception 'refresh already in progress' using errcode = 'SV001';
  end if;
end $$;
