-- Watching costs little: what a statement did is logged by one statement. TRUNCATE is an entry of its own.

-- How the key and the image of a row of a transition table are written, as the API writes them.
create function svc.logged_forms(target oid, alias text, out key_form text, out image_form text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select
    case
      when i.indrelid is null then 'null::text'
      when i.indnkeyatts = 1 then (
        select case when a.atttypid in (16, 20, 21, 23, 2950) then format('%s.%I::text', alias, a.attname)
          else format('svc.key_text(to_json(%s.%I) #>> ''{}'')', alias, a.attname) end
        from pg_attribute a where a.attrelid = target and a.attnum = i.indkey[0])
      else (
        select format('svc.key_text(jsonb_build_array(%s)::text)', string_agg(format('%s.%I', alias, a.attname), ', ' order by k.n))
        from unnest(i.indkey::int2[]) with ordinality as k(attnum, n) join pg_attribute a on a.attrelid = target and a.attnum = k.attnum
      )
    end,
    case
      when c.conversions is not null then format('(to_jsonb(%s.*) || %s)::json', alias, c.conversions)
      -- What is not sure to be valid jsonb is made jsonb here, so that it is refused now.
      when exists (
        select from pg_attribute a join pg_type t on t.oid = a.atttypid
        where a.attrelid = target and a.attnum > 0 and not a.attisdropped and t.typtype <> 'e'
          and coalesce(nullif(t.typelem, 0), t.oid) not in (16, 17, 20, 21, 23, 25, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1266, 1700, 2950, 3802)
      ) then format('to_jsonb(%s.*)::json', alias)
      else format('to_json(%s.*)', alias)
    end
  from (select case when exists (select from pg_extension where extname in ('postgis', 'vector')) then svc.converted_columns(target, alias) end as conversions) c
  left join pg_index i on i.indrelid = target and i.indisprimary
$$;

-- The triggers of updates, deletes and TRUNCATE are off when svc_watch itself is: then the API logs what it writes.
create function svc.is_watched(target oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from pg_trigger t where t.tgrelid = target and t.tgname = 'svc_watch' and t.tgenabled in ('O', 'A'))
$$;

-- Runs as the owner of the log, because who writes the table need not know of the log. It reads nothing that the writer
-- chose but the rows themselves. Both tables of an update hold its rows in the same order, whatever became of their keys.
create function svc.log_statement() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set intervalstyle = 'postgres' as $$
declare
  forms record;
  old_forms record;
  shape bigint;
  actor text;
  request text := nullif(current_setting('svc.request_id', true), '');
begin
  if TG_NAME <> 'svc_watch' and not svc.is_watched(TG_RELID) then
    return null;
  end if;
  if TG_OP = 'INSERT' then
    if not exists (select from new_rows) then
      return null;
    end if;
  elsif TG_OP <> 'TRUNCATE' then
    if not exists (select from old_rows) then
      return null;
    end if;
  end if;
  shape := (svc.keep_shape(TG_RELID)).id;
  actor := svc.current_actor()::text;
  if TG_OP = 'TRUNCATE' then
    insert into svc.change_log (shape, table_oid, action, actor, request_id) values (shape, TG_RELID, 't', actor, request);
    return null;
  end if;
  forms := svc.logged_forms(TG_RELID, 'svc_n');
  if TG_OP = 'INSERT' then
    execute format('insert into svc.change_log (shape, table_oid, action, key, record, actor, request_id)
      select $1, $2, ''c'', %s, %s, $3, $4 from new_rows svc_n', forms.key_form, forms.image_form) using shape, TG_RELID, actor, request;
  elsif TG_OP = 'DELETE' then
    execute format('insert into svc.change_log (shape, table_oid, action, key, old_record, actor, request_id)
      select $1, $2, ''d'', %s, %s, $3, $4 from old_rows svc_n', forms.key_form, forms.image_form) using shape, TG_RELID, actor, request;
  else
    old_forms := svc.logged_forms(TG_RELID, 'svc_o');
    execute format('insert into svc.change_log (shape, table_oid, action, key, record, old_record, actor, request_id)
      select $1, $2, ''u'', n.key, n.image, o.image, $3, $4
      from (select row_number() over () as i, %s as key, %s as image from new_rows svc_n) n
      join (select row_number() over () as i, %s as image from old_rows svc_o) o on o.i = n.i order by n.i',
      forms.key_form, forms.image_form, old_forms.image_form) using shape, TG_RELID, actor, request;
  end if;
  return null;
end $$;

-- Creates the triggers of a table. Rows of partitions and of tables that inherit reach only row triggers.
create function svc.make_watch(target regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from pg_class c where c.oid = target and (c.relkind = 'p' or c.relispartition))
    or exists (select from pg_inherits i where target in (i.inhrelid, i.inhparent)) then
    execute format('create trigger svc_watch after insert or update or delete on %s for each row execute function svc.log_change()', target);
  else
    execute format('create trigger svc_watch after insert on %s referencing new table as new_rows
      for each statement execute function svc.log_statement()', target);
    execute format('create trigger svc_watch_update after update on %s referencing old table as old_rows new table as new_rows
      for each statement execute function svc.log_statement()', target);
    execute format('create trigger svc_watch_delete after delete on %s referencing old table as old_rows
      for each statement execute function svc.log_statement()', target);
    execute format('alter table %s enable always trigger svc_watch_update, enable always trigger svc_watch_delete', target);
  end if;
  execute format('create trigger svc_watch_truncate after truncate on %s for each statement execute function svc.log_statement()', target);
  execute format('alter table %s enable always trigger svc_watch, enable always trigger svc_watch_truncate', target);
end $$;

create or replace function svc.watch(target regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from pg_class where oid = target and relkind in ('r', 'p')) then
    raise exception '% is not a table', target;
  end if;
  if not exists (select from pg_trigger where tgrelid = target and tgname = 'svc_watch') then
    perform svc.unwatch(target);
    perform svc.make_watch(target);
    perform svc.note_watched(target);
  end if;
end $$;

create or replace function svc.unwatch(target regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp set client_min_messages = warning as $$
begin
  execute format('drop trigger if exists svc_watch on %1$s; drop trigger if exists svc_watch_update on %1$s;
    drop trigger if exists svc_watch_delete on %1$s; drop trigger if exists svc_watch_truncate on %1$s', target);
end $$;

-- Tables that are watched already.
do $$
declare
  watched regclass;
begin
  for watched in select t.tgrelid from pg_catalog.pg_trigger t where t.tgname = 'svc_watch' and t.tgparentid = 0 and t.tgenabled <> 'D' loop
    begin
      perform svc.unwatch(watched);
      perform svc.make_watch(watched);
    exception when insufficient_privilege then
      raise notice 'changes of % are logged as before', watched;
    end;
  end loop;
end $$;

create or replace view svc.changes as
  select c.id + coalesce(u.n, 0) as id, c.xid, c.at,
    case c.action when 'c' then 'create' when 'u' then 'update' when 'd' then 'delete' else 'truncate' end as action,
    s.schema_name, s.table_name,
    (select coalesce(jsonb_object_agg(k.name, k.value), '{}') from (
       select name, coalesce(u.record::json, c.record, c.old_record) -> name as value from unnest(s.key_columns) as name offset 0
     ) k where k.value is not null) as pk,
    coalesce(u.record, c.record::jsonb) as record, c.old_record::jsonb as old_record, c.actor::jsonb as actor,
    c.request_id, c.table_oid, c.shape, coalesce(c.key, svc.key_of(u.record, s.key_columns)) as key, c.id as entry
  from svc.change_log c
  left join lateral (select * from svc.change_shapes s where s.id = c.shape limit 1) s on true
  left join lateral (
    select u.* from svc.change_packs p cross join lateral svc.unpack_changes(p.rows) u where c.events > 1 and p.id = c.id
  ) u on true;

-- Since when the log has all changes of a table; null when it has not. TRUNCATE logs no rows.
create or replace function svc.history_reaches(target oid, retention interval) returns timestamptz
language sql stable set search_path = pg_catalog, pg_temp as $$
  select greatest(w.since, now() - retention, (select h.trimmed_at from svc.change_horizon h),
    (select max(c.at) from svc.change_log c where c.table_oid = history_reaches.target and c.key is null and c.action = 't'))
  from svc.watched_since w where w.target = history_reaches.target and svc.is_watched(history_reaches.target)
$$;
