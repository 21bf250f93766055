-- The history of rows: who may read it, how far it reaches back, and images with the column names of now.

-- Tables whose history callers may read under their policies. regclass: a dump brings the names.
create table svc.open_histories (
  target regclass primary key,
  -- Whether callers see who made a change.
  actor boolean not null default false,
  opened_at timestamptz not null default now()
);

create function svc.open_history(target regclass, actor boolean default false) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from pg_class where oid = target and relkind in ('r', 'p')) then
    raise exception '% is not a table', target;
  end if;
  insert into svc.open_histories as h (target, actor) values (open_history.target, open_history.actor)
  on conflict on constraint open_histories_pkey do update set actor = excluded.actor;
end $$;

create function svc.close_history(target regclass) returns void
language sql set search_path = pg_catalog, pg_temp as $$
  delete from svc.open_histories h where h.target = close_history.target
$$;

-- What a transaction undid, once for all its changes.
create table svc.undone (
  xid xid8 primary key,
  undoes jsonb not null,
  at timestamptz not null default now()
);

-- The newest change that was ever trimmed.
alter table svc.change_horizon add column trimmed_at timestamptz;

-- Since when the trigger of svc.watch() logs all changes of a table.
create table svc.watched_since (
  target regclass primary key,
  since timestamptz not null default now()
);
insert into svc.watched_since (target) select distinct t.tgrelid from pg_catalog.pg_trigger t where t.tgname = 'svc_watch';

-- An image with the names that its columns have now; `shape` is which had which number then. Of columns that are gone
-- nothing is left, unless they are wanted and their name is free.
create function svc.image_now(image jsonb, shape jsonb, target oid, with_dropped boolean) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when image is not null then (
    select coalesce(jsonb_object_agg(coalesce(a.attname, c.name), image -> c.name), '{}')
    from (select (e ->> 0)::int2 as number, e ->> 1 as name from jsonb_array_elements(shape) e) c
    left join pg_attribute a on a.attrelid = target and a.attnum = c.number and not a.attisdropped
    where image ? c.name and (a.attnum is not null or (with_dropped and not exists (
      select from pg_attribute b where b.attrelid = target and b.attname = c.name and b.attnum > 0 and not b.attisdropped)))
  ) end
$$;

-- Changes in the form in which they are told, images with the names of now. `actor` of an account that is gone has no name.
create view svc.told_changes as
  select v.id, v.xid, v.at, v.action, v.table_oid, v.key as key_text, v.request_id, v.entry,
    coalesce(n.nspname, v.schema_name) as schema_name, coalesce(k.relname, v.table_name) as table_name, k.oid is not null as is_there,
    svc.key_json(coalesce(v.record, v.old_record), s.key_columns) as key, v.actor,
    svc.image_now(v.old_record, s.columns, v.table_oid, true) as old_whole, svc.image_now(v.record, s.columns, v.table_oid, true) as new_whole,
    svc.image_now(v.old_record, s.columns, v.table_oid, false) as old_now, svc.image_now(v.record, s.columns, v.table_oid, false) as new_now
  from svc.changes v
  cross join lateral (select s.key_columns, s.columns from svc.change_shapes s where s.id = v.shape limit 1) s
  left join pg_catalog.pg_class k on k.oid = v.table_oid
  left join pg_catalog.pg_namespace n on n.oid = k.relnamespace;

-- A deleted account's name leaves the log with it. The images of rows that went with it stay until readers have had them.
create table svc.forgotten (
  xid xid8 primary key default pg_current_xact_id(),
  at timestamptz not null default now()
);

create function svc.forget_actors() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update svc.change_log c set actor = (c.actor::jsonb - 'id' - 'userId')::text
  where c.actor is not null and (c.actor::json ->> 'userId' in (select g.id::text from gone g)
    or (c.actor::json ->> 'kind' = 'user' and c.actor::json ->> 'id' in (select g.id::text from gone g)));
  insert into svc.forgotten default values on conflict do nothing;
  return null;
end $$;
create trigger svc_forget after delete on svc.users referencing old table as gone
  for each statement execute function svc.forget_actors();

-- Empties all images of rows that were deleted together with an account, once every durable reader is past them.
create function svc.forget_images(settled bigint, streams interval) returns integer
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  emptied integer;
  passed bigint := least(settled, coalesce((select min(id) from svc.change_readers), settled));
begin
  with due as (
    select f.xid from svc.forgotten f
    where f.at < now() - streams and not exists (select from svc.change_log c where c.xid = f.xid and c.id > passed)
  ), rows as (
    select distinct c.table_oid, c.key from svc.change_log c join due using (xid) where c.action = 'd' and c.key is not null
  ), emptied_images as (
    update svc.change_log c set record = case when c.record is not null then '{}'::json end,
      old_record = case when c.old_record is not null then '{}'::json end
    from rows r where c.table_oid = r.table_oid and c.key = r.key and c.id <= passed returning 1
  ), done as (
    delete from svc.forgotten f using due where f.xid = due.xid
  )
  select count(*) into emptied from emptied_images;
  return emptied;
end $$;

-- Since when the log has all changes of a table; null when it has not.
create function svc.history_reaches(target oid, retention interval) returns timestamptz
language sql stable set search_path = pg_catalog, pg_temp as $$
  select greatest(w.since, now() - retention, (select h.trimmed_at from svc.change_horizon h))
  from svc.watched_since w
  where w.target = history_reaches.target and exists (
    select from pg_trigger t where t.tgrelid = history_reaches.target and t.tgname = 'svc_watch' and t.tgenabled in ('O', 'A'))
$$;

create or replace function svc.watch(target regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from pg_class where oid = target and relkind in ('r', 'p')) then
    raise exception '% is not a table', target;
  end if;
  if not exists (select from pg_trigger where tgrelid = target and tgname = 'svc_watch') then
    execute format('create trigger svc_watch after insert or update or delete on %s for each row execute function svc.log_change()', target);
    perform svc.note_watched(target);
  end if;
end $$;

-- clock_timestamp(): the transaction may have begun long before the trigger was there.
create function svc.note_watched(watched regclass) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into svc.watched_since (target, since)
  select watched, clock_timestamp() where exists (select from pg_trigger t where t.tgrelid = watched and t.tgname = 'svc_watch')
  on conflict (target) do update set since = excluded.since
$$;
