-- Resumable uploads (TUS). What has arrived is in parts, each a blob that is durable before its row; an upload whose parts are all
-- there becomes an object.
create table svc.uploads (
  id           uuid primary key,
  bucket       text collate "C" not null,
  -- Of the settings it began with.
  bucket_id    uuid,
  name         text not null,
  content_type text not null,
  -- Whose requests go on with it.
  creator      text not null,
  owner        uuid,
  is_operators boolean not null,
  length       bigint not null,
  -- What counts for quotas: the length, until it is an object.
  size         bigint not null,
  received     bigint not null default 0,
  parts        integer not null default 0,
  -- The request that may add a part.
  writer       uuid,
  -- As it was sent.
  metadata     text not null,
  completed_at timestamptz,
  created_at   timestamptz not null default now(),
  expires_at   timestamptz not null
);
create index uploads_expiry on svc.uploads (expires_at);
create index uploads_creator on svc.uploads (creator) where completed_at is null;

create table svc.upload_parts (
  upload_id uuid not null references svc.uploads on delete cascade,
  start     bigint not null,
  size      bigint not null,
  blob_id   uuid not null references svc.blobs (id),
  primary key (upload_id, start)
);
create index upload_parts_blob on svc.upload_parts (blob_id);

create trigger release_on_delete after delete on svc.upload_parts
  referencing old table as old_rows for each statement execute function svc.release_blobs();
create trigger count_on_insert after insert on svc.uploads
  referencing new table as new_rows for each statement execute function svc.count_ownerless();
create trigger count_on_update after update on svc.uploads
  referencing old table as old_rows new table as new_rows for each statement execute function svc.count_ownerless();
create trigger count_on_delete after delete on svc.uploads
  referencing old table as old_rows for each statement execute function svc.count_ownerless();
create trigger sum_on_insert after insert on svc.uploads
  referencing new table as new_rows for each statement execute function svc.count_stored();
create trigger sum_on_update after update on svc.uploads
  referencing old table as old_rows new table as new_rows for each statement execute function svc.count_stored();
create trigger sum_on_delete after delete on svc.uploads
  referencing old table as old_rows for each statement execute function svc.count_stored();

create or replace function svc.count_bucket(of_bucket text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  lock table svc.objects, svc.uploads in share mode;
  insert into svc.stored_bytes (kind, key, bytes)
  select 'bucket', of_bucket, (select coalesce(sum(o.size), 0) from svc.objects o where o.bucket = of_bucket)
    + (select coalesce(sum(u.size), 0) from svc.uploads u where u.bucket = of_bucket)
  on conflict (kind, key) do update set bytes = excluded.bytes;
end $$;

-- In the transaction that makes the object. Its parts go; the row stays until it expires, for clients that lost the answer.
create function svc.complete_upload(of_upload uuid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  update svc.uploads u set completed_at = now(), size = 0, writer = null where u.id = of_upload and u.completed_at is null;
  if not found then
    raise exception 'the upload is complete already' using errcode = 'SVF05';
  end if;
  delete from svc.upload_parts p where p.upload_id = of_upload;
end $$;
revoke execute on function svc.complete_upload(uuid) from public;

create or replace function svc.take_upload(wanted_bucket text, wanted_name text) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  upload jsonb := svc.announced_upload(wanted_bucket, wanted_name);
begin
  if upload is null then
    return null;
  end if;
  perform from svc.storage_buckets b where b.name = wanted_bucket and b.id = (upload ->> 'bucketId')::uuid for share;
  if not found then
    raise exception 'bucket not found' using errcode = 'SVF04';
  end if;
  if (upload ->> 'isNew')::boolean then
    insert into svc.blobs (id, size, sha256) values ((upload ->> 'blob')::uuid, (upload ->> 'size')::bigint, upload ->> 'sha256');
  end if;
  if upload ->> 'uploadId' is not null then
    perform svc.complete_upload((upload ->> 'uploadId')::uuid);
  end if;
  return upload;
end $$;
