-- How much is stored that no account owns and is not the operator's: uploads of visitors have a quota. A small file counts
-- as a block of its disk.
create table svc.ownerless_bytes (
  is_only boolean primary key default true check (is_only),
  bytes   bigint not null
);
insert into svc.ownerless_bytes (bytes)
select coalesce(sum(greatest(b.size, 4096)), 0) from svc.storage_objects o join svc.blobs b on b.id = o.blob_id
where o.user_id is null and not o.is_operators;

create function svc.count_ownerless() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  added bigint := 0;
  removed bigint := 0;
begin
  if tg_op <> 'DELETE' then
    select coalesce(sum(greatest(b.size, 4096)), 0) into added from new_rows o join svc.blobs b on b.id = o.blob_id
    where o.user_id is null and not o.is_operators;
  end if;
  if tg_op <> 'INSERT' then
    select coalesce(sum(greatest(b.size, 4096)), 0) into removed from old_rows o join svc.blobs b on b.id = o.blob_id
    where o.user_id is null and not o.is_operators;
  end if;
  if added <> removed then
    update svc.ownerless_bytes set bytes = bytes + added - removed;
  end if;
  return null;
end $$;

create trigger count_on_insert after insert on svc.storage_objects
  referencing new table as new_rows for each statement execute function svc.count_ownerless();
create trigger count_on_update after update on svc.storage_objects
  referencing old table as old_rows new table as new_rows for each statement execute function svc.count_ownerless();
create trigger count_on_delete after delete on svc.storage_objects
  referencing old table as old_rows for each statement execute function svc.count_ownerless();
