-- Objects of buckets are rows under row-level security: in buckets whose access is `policies`, policies on svc.objects
-- decide, in the statement of the caller that reads or writes the row. In all other buckets the server decides, and callers
-- see none of their rows.
alter table svc.storage_objects rename to objects;
alter table svc.objects rename column user_id to owner;
alter index svc.storage_objects_readable rename to objects_readable;

-- The path of a name in a URL, as encodeURIComponent writes its segments; a star means every path to some caches.
create function svc.encoded_name(name text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
  select case when name ~ '^[A-Za-z0-9_.!~''()/-]*$' then name else (
    select string_agg(case when b < 128 and chr(b) ~ '[A-Za-z0-9_.!~''()/-]' then chr(b) else '%' || upper(lpad(to_hex(b), 2, '0')) end, '' order by i)
    from (select i, get_byte(bytes, i) as b from (select convert_to(name, 'UTF8') as bytes) u, generate_series(0, length(bytes) - 1) i) o
  ) end
$$;

alter table svc.objects disable trigger user;
alter table svc.objects
  drop column encoded_name,
  add column size bigint,
  add column sha256 text,
  add column metadata jsonb not null default '{}' check (octet_length(metadata::text) <= 16384);
alter table svc.objects add column encoded_name text not null generated always as (svc.encoded_name(name)) stored;
update svc.objects o set size = b.size, sha256 = b.sha256 from svc.blobs b where b.id = o.blob_id;
alter table svc.objects alter column size set not null, alter column sha256 set not null;
alter table svc.objects enable trigger user;

create function svc.folder(name text) returns text[]
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
  select (string_to_array(name, '/'))[:cardinality(string_to_array(name, '/')) - 1]
$$;
create function svc.filename(name text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
  select substring(name from '[^/]*$')
$$;
-- Without its dot; empty where there is none. A name that begins with its only dot has none.
create function svc.extension(name text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
  select coalesce(substring(name from '[^/]\.([^./]*)$'), '')
$$;

alter table svc.storage_buckets add column access text not null default 'public' check (access in ('private', 'public', 'policies'));
update svc.storage_buckets set access = 'private' where not public;
alter table svc.storage_buckets drop column public;

create function svc.policy_buckets() returns setof text
language sql stable parallel safe security definer set search_path = pg_catalog, pg_temp as $$
  select b.name from svc.storage_buckets b where b.access = 'policies'
$$;

alter table svc.objects enable row level security;
-- However wide a policy is, it opens no other bucket. The subquery is run once a statement.
create policy policies_buckets_only on svc.objects as restrictive for all to public
  using (bucket = any (array(select svc.policy_buckets()))) with check (bucket = any (array(select svc.policy_buckets())));

-- Of callers' columns; the roles may not be there yet, then db/setup/roles.ts grants.
create function svc.grant_objects() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  grant select, delete, insert (bucket, name, content_type, metadata), update (bucket, name, content_type, metadata)
    on svc.objects to svc_anon, svc_authenticated;
end $$;
revoke execute on function svc.grant_objects() from public;
do $$
begin
  if (select count(*) from pg_catalog.pg_roles r where r.rolname in ('svc_anon', 'svc_authenticated')) = 2 then
    perform svc.grant_objects();
  end if;
end $$;

-- The server's word about the bytes of an upload, in the setting svc.upload of the transaction that stores them: callers
-- cannot say which bytes an object has, whose it is or how large. Null where there is none, or for another object.
create function svc.announced_upload(wanted_bucket text, wanted_name text) returns jsonb
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  said text := current_setting('svc.upload', true);
  upload jsonb;
begin
  if coalesce(said, '') = '' or left(said, 64) is distinct from (
    select encode(sha256(convert_to(k.key || '.' || substr(said, 66) || '.' || k.key, 'UTF8')), 'hex') from svc.log_key k) then
    return null;
  end if;
  upload := substr(said, 66)::jsonb;
  return case when upload ->> 'kind' = 'upload' and upload ->> 'bucket' = wanted_bucket and upload ->> 'name' = wanted_name then upload end;
end $$;

-- As announced_upload, with its bytes on record. The settings of the bucket stay as they are until the end of the transaction.
create function svc.take_upload(wanted_bucket text, wanted_name text) returns jsonb
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
  return upload;
end $$;

-- What a caller under row security writes. Bytes, owner and size come from the server alone.
create function svc.guard_object() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  upload jsonb;
begin
  if not row_security_active('svc.objects') then
    return new;
  end if;
  if TG_OP = 'INSERT' or new.name is distinct from old.name then
    if octet_length(new.name) not between 1 and 1024 or new.name ~ '[\\[:cntrl:]]' or new.name ~ '(^|/)\.{0,2}(/|$)' then
      raise exception 'invalid object name: %', new.name using errcode = 'invalid_parameter_value';
    end if;
  end if;
  if TG_OP = 'UPDATE' and nullif(current_setting('svc.upload', true), '') is null then
    new.updated_at := now();
    return new;
  end if;
  upload := svc.take_upload(new.bucket, new.name);
  if upload is null then
    raise exception 'the bytes of objects come through the storage API' using errcode = 'insufficient_privilege';
  end if;
  if TG_OP = 'INSERT' then
    new.id := gen_random_uuid();
    new.owner := (upload ->> 'owner')::uuid;
    new.is_operators := false;
    new.created_at := now();
  end if;
  new.app_id := (upload ->> 'app')::uuid;
  new.blob_id := (upload ->> 'blob')::uuid;
  new.size := (upload ->> 'size')::bigint;
  new.sha256 := upload ->> 'sha256';
  new.updated_at := now();
  return new;
end $$;
create trigger guard before insert or update on svc.objects for each row execute function svc.guard_object();

-- The object that an upload of this transaction became, for the answer to its caller, who need not be able to read it; null
-- when it became none.
create function svc.stored_upload(wanted_bucket text, wanted_name text) returns svc.objects
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  upload jsonb := svc.announced_upload(wanted_bucket, wanted_name);
  stored svc.objects;
begin
  select * into stored from svc.objects o
  where o.bucket = wanted_bucket and o.name = wanted_name and o.blob_id = (upload ->> 'blob')::uuid;
  if stored.id is not null and stored.owner is null and not stored.is_operators
    and (select b.bytes from svc.ownerless_bytes b) > (upload ->> 'ownerlessQuota')::bigint then
    raise exception 'insufficient storage' using errcode = 'SVF07';
  end if;
  return stored;
end $$;

-- Triggers of statements that callers run too.
create or replace function svc.release_blobs() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into svc.queue (kind, payload, run_at)
  select 'blobs.remove', jsonb_build_object('ids', jsonb_agg(blob_id)), now() + interval '30 seconds'
  from (select blob_id, (row_number() over () - 1) / 500 as portion from (select distinct blob_id from old_rows) o) portions
  group by portion;
  return null;
end $$;

create or replace function svc.count_ownerless() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  added bigint := 0;
  removed bigint := 0;
begin
  if tg_op <> 'DELETE' then
    select coalesce(sum(greatest(o.size, 4096)), 0) into added from new_rows o where o.owner is null and not o.is_operators;
  end if;
  if tg_op <> 'INSERT' then
    select coalesce(sum(greatest(o.size, 4096)), 0) into removed from old_rows o where o.owner is null and not o.is_operators;
  end if;
  if added <> removed then
    update svc.ownerless_bytes set bytes = bytes + added - removed;
  end if;
  return null;
end $$;

-- Changes of objects are in the change log like those of a watched table, without what is the store's.
create function svc.log_objects() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  shape bigint;
  actor text := svc.current_actor()::text;
  request text := nullif(current_setting('svc.request_id', true), '');
begin
  if TG_OP = 'INSERT' then
    if not exists (select from new_rows) then return null; end if;
    shape := (svc.keep_shape(TG_RELID)).id;
    insert into svc.change_log (shape, table_oid, action, key, record, actor, request_id)
    select shape, TG_RELID, 'c', n.id::text, json_build_object('id', n.id, 'bucket', n.bucket, 'name', n.name, 'owner', n.owner, 'size', n.size,
      'content_type', n.content_type, 'metadata', n.metadata, 'created_at', n.created_at, 'updated_at', n.updated_at), actor, request from new_rows n;
  elsif TG_OP = 'DELETE' then
    if not exists (select from old_rows) then return null; end if;
    shape := (svc.keep_shape(TG_RELID)).id;
    insert into svc.change_log (shape, table_oid, action, key, old_record, actor, request_id)
    select shape, TG_RELID, 'd', o.id::text, json_build_object('id', o.id, 'bucket', o.bucket, 'name', o.name, 'owner', o.owner, 'size', o.size,
      'content_type', o.content_type, 'metadata', o.metadata, 'created_at', o.created_at, 'updated_at', o.updated_at), actor, request from old_rows o;
  else
    if not exists (select from old_rows) then return null; end if;
    shape := (svc.keep_shape(TG_RELID)).id;
    insert into svc.change_log (shape, table_oid, action, key, record, old_record, actor, request_id)
    select shape, TG_RELID, 'u', n.id::text, json_build_object('id', n.id, 'bucket', n.bucket, 'name', n.name, 'owner', n.owner, 'size', n.size,
      'content_type', n.content_type, 'metadata', n.metadata, 'created_at', n.created_at, 'updated_at', n.updated_at), json_build_object('id', o.id, 'bucket', o.bucket, 'name', o.name, 'owner', o.owner, 'size', o.size,
      'content_type', o.content_type, 'metadata', o.metadata, 'created_at', o.created_at, 'updated_at', o.updated_at), actor, request
    from new_rows n join old_rows o on o.id = n.id;
  end if;
  return null;
end $$;
create trigger log_on_insert after insert on svc.objects
  referencing new table as new_rows for each statement execute function svc.log_objects();
create trigger log_on_update after update on svc.objects
  referencing old table as old_rows new table as new_rows for each statement execute function svc.log_objects();
create trigger log_on_delete after delete on svc.objects
  referencing old table as old_rows for each statement execute function svc.log_objects();
