-- Rules and quotas of buckets, and what is stored for whom.
alter table svc.storage_buckets
  add column quota_bytes bigint check (quota_bytes >= 0),
  add column max_size bigint check (max_size >= 0),
  -- `type/subtype` or `type/*`; null = all.
  add column allowed_types text[];

-- Bytes of each account's objects (`user`), and of the buckets that have a quota (`bucket`).
create table svc.stored_bytes (
  kind  text not null,
  key   text not null,
  bytes bigint not null,
  primary key (kind, key)
);
insert into svc.stored_bytes (kind, key, bytes) select 'user', o.owner::text, sum(o.size) from svc.objects o where o.owner is not null group by 2;

create function svc.count_stored() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- In one order, so that two statements never wait for each other.
  if TG_OP = 'INSERT' then
    insert into svc.stored_bytes as s (kind, key, bytes)
    select d.kind, d.key, sum(d.size) from (
      select 'user' as kind, n.owner::text as key, n.size from new_rows n where n.owner is not null
      union all select 'bucket', n.bucket, n.size from new_rows n join svc.storage_buckets b on b.name = n.bucket and b.quota_bytes is not null
    ) d group by 1, 2 having sum(d.size) <> 0 order by 1, 2
    on conflict (kind, key) do update set bytes = s.bytes + excluded.bytes;
  elsif TG_OP = 'DELETE' then
    insert into svc.stored_bytes as s (kind, key, bytes)
    select d.kind, d.key, sum(d.size) from (
      select 'user' as kind, o.owner::text as key, -o.size as size from old_rows o where o.owner is not null
      union all select 'bucket', o.bucket, -o.size from old_rows o join svc.storage_buckets b on b.name = o.bucket and b.quota_bytes is not null
    ) d group by 1, 2 having sum(d.size) <> 0 order by 1, 2
    on conflict (kind, key) do update set bytes = s.bytes + excluded.bytes;
  else
    insert into svc.stored_bytes as s (kind, key, bytes)
    select d.kind, d.key, sum(d.size) from (
      select 'user' as kind, r.owner::text as key, r.size
      from (select owner, size from new_rows union all select owner, -size from old_rows) r where r.owner is not null
      union all select 'bucket', r.bucket, r.size
      from (select bucket, size from new_rows union all select bucket, -size from old_rows) r
      join svc.storage_buckets b on b.name = r.bucket and b.quota_bytes is not null
    ) d group by 1, 2 having sum(d.size) <> 0 order by 1, 2
    on conflict (kind, key) do update set bytes = s.bytes + excluded.bytes;
  end if;
  return null;
end $$;
create trigger sum_on_insert after insert on svc.objects
  referencing new table as new_rows for each statement execute function svc.count_stored();
create trigger sum_on_update after update on svc.objects
  referencing old table as old_rows new table as new_rows for each statement execute function svc.count_stored();
create trigger sum_on_delete after delete on svc.objects
  referencing old table as old_rows for each statement execute function svc.count_stored();

-- Counts a bucket whose quota is new. Writers wait: what they add or remove meanwhile would be counted by none, or twice.
create function svc.count_bucket(of_bucket text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  lock table svc.objects in share mode;
  insert into svc.stored_bytes (kind, key, bytes)
  select 'bucket', of_bucket, coalesce(sum(o.size), 0) from svc.objects o where o.bucket = of_bucket
  on conflict (kind, key) do update set bytes = excluded.bytes;
end $$;
revoke execute on function svc.count_bucket(text) from public;

-- Of a transaction that has stored something. `user_quota` 0 = none.
create function svc.require_quota(of_bucket text, of_owner uuid, user_quota bigint) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from svc.storage_buckets b join svc.stored_bytes s on s.kind = 'bucket' and s.key = b.name
      where b.name = of_bucket and s.bytes > b.quota_bytes)
    or (user_quota > 0 and exists (select from svc.stored_bytes s where s.kind = 'user' and s.key = of_owner::text and s.bytes > user_quota)) then
    raise exception 'quota exceeded' using errcode = 'SVF03';
  end if;
end $$;
revoke execute on function svc.require_quota(text, uuid, bigint) from public;

create or replace function svc.stored_upload(wanted_bucket text, wanted_name text) returns svc.objects
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  upload jsonb := svc.announced_upload(wanted_bucket, wanted_name);
  stored svc.objects;
begin
  select * into stored from svc.objects o
  where o.bucket = wanted_bucket and o.name = wanted_name and o.blob_id = (upload ->> 'blob')::uuid
    -- Written by this transaction: a copy shares the bytes of what was there before.
    and o.xmin = pg_current_xact_id()::xid;
  if stored.id is null then
    return stored;
  end if;
  if stored.owner is null and not stored.is_operators
    and (select b.bytes from svc.ownerless_bytes b) > (upload ->> 'ownerlessQuota')::bigint then
    raise exception 'insufficient storage' using errcode = 'SVF07';
  end if;
  perform svc.require_quota(wanted_bucket, stored.owner, (upload ->> 'userQuota')::bigint);
  return stored;
end $$;

-- For a trial: undoes what a caller's statements did, and says so; nothing where they stored nothing.
create function svc.end_trial(wanted_bucket text, wanted_name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if (svc.stored_upload(wanted_bucket, wanted_name)).id is not null then
    raise exception 'allowed' using errcode = 'SVF00';
  end if;
end $$;
