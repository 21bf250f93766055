-- Images in other sizes and formats, by the hash of their original and the parameters. The oldest go first.
alter table svc.storage_buckets add column sizes text[];

create table svc.transforms (
  source       text not null,
  parameters   text not null,
  blob_id      uuid not null references svc.blobs (id),
  size         bigint not null,
  content_type text not null,
  created_at   timestamptz not null default now(),
  primary key (source, parameters)
);
create index transforms_blob on svc.transforms (blob_id);
create index transforms_age on svc.transforms (created_at, blob_id) include (size);

create trigger release_on_delete after delete on svc.transforms
  referencing old table as old_rows for each statement execute function svc.release_blobs();

-- Their bytes are in svc.stored_bytes as `transforms`.
create function svc.count_transforms() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  changed bigint;
begin
  if TG_OP = 'INSERT' then
    select sum(n.size) into changed from new_rows n;
  else
    select -sum(o.size) into changed from old_rows o;
  end if;
  if changed <> 0 then
    insert into svc.stored_bytes as s (kind, key, bytes) values ('transforms', '', changed)
    on conflict (kind, key) do update set bytes = s.bytes + excluded.bytes;
  end if;
  return null;
end $$;
create trigger sum_on_insert after insert on svc.transforms
  referencing new table as new_rows for each statement execute function svc.count_transforms();
create trigger sum_on_delete after delete on svc.transforms
  referencing old table as old_rows for each statement execute function svc.count_transforms();
