-- Stored bytes, and the objects of buckets.

-- Bytes that are complete and durable in the store, under the name of their id. They never change: a new version of a file
-- is a new blob. Whatever uses a blob refers to it, so that none can go while it is used.
create table svc.blobs (
  id         uuid primary key,
  size       bigint not null,
  sha256     text not null,
  created_at timestamptz not null default now()
);

-- A bucket without a row is public and not inline.
create table svc.storage_buckets (
  id         uuid primary key default gen_random_uuid(),
  name       text not null unique,
  public     boolean not null default true,
  inline     boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table svc.storage_objects (
  id           uuid primary key default gen_random_uuid(),
  bucket       text collate "C" not null,
  name         text collate "C" not null,
  -- The name as it stands in a URL.
  encoded_name text not null,
  content_type text not null,
  blob_id      uuid not null references svc.blobs (id),
  -- Whoever uploaded it first, also when that account is gone: then only an admin may change it.
  user_id      uuid,
  created_at   timestamptz not null default now(),
  updated_at   timestamptz not null default now(),
  unique (bucket, name)
);
create index on svc.storage_objects (blob_id);

-- What was replaced or deleted, by whatever way, goes after half a minute: readers who know the blob have opened it by then.
-- Whether something else uses it is asked when it goes.
create function svc.release_blobs() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  insert into svc.queue (kind, payload, run_at)
  select 'blobs.remove', jsonb_build_object('ids', jsonb_agg(blob_id)), now() + interval '30 seconds'
  from (select blob_id, (row_number() over () - 1) / 500 as portion from (select distinct blob_id from old_rows) o) portions
  group by portion;
  return null;
end $$;

create trigger release_on_delete after delete on svc.storage_objects
  referencing old table as old_rows for each statement execute function svc.release_blobs();
create trigger release_on_update after update on svc.storage_objects
  referencing old table as old_rows for each statement execute function svc.release_blobs();

-- Forgets the blobs that nothing uses; returns those whose bytes may go.
create function svc.forget_blobs(ids uuid[]) returns setof uuid
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  candidate uuid;
begin
  foreach candidate in array ids loop
    begin
      delete from svc.blobs where id = candidate;
      return next candidate;
    exception when foreign_key_violation then
      null; -- used, or used again
    end;
  end loop;
end $$;
