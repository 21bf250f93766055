-- Undo of objects in buckets, as long as their bytes are there.

-- Which bytes an object had before a transaction changed it: images in the log are told to callers, and this is not. It goes with
-- the bytes. Of several changes in one transaction the first counts.
create table svc.object_bytes (
  object uuid not null,
  xid xid8 not null,
  blob_id uuid not null references svc.blobs (id) on delete cascade,
  sha256 text not null,
  app_id uuid,
  is_operators boolean not null,
  primary key (object, xid)
);
create index object_bytes_blob on svc.object_bytes (blob_id);

-- As 0110_objects.sql made it.
create or replace function svc.log_objects() returns trigger
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
    insert into svc.object_bytes (object, xid, blob_id, sha256, app_id, is_operators)
    select o.id, pg_current_xact_id(), o.blob_id, o.sha256, o.app_id, o.is_operators from old_rows o on conflict do nothing;
  else
    if not exists (select from old_rows) then return null; end if;
    shape := (svc.keep_shape(TG_RELID)).id;
    insert into svc.change_log (shape, table_oid, action, key, record, old_record, actor, request_id)
    select shape, TG_RELID, 'u', n.id::text, json_build_object('id', n.id, 'bucket', n.bucket, 'name', n.name, 'owner', n.owner, 'size', n.size,
      'content_type', n.content_type, 'metadata', n.metadata, 'created_at', n.created_at, 'updated_at', n.updated_at), json_build_object('id', o.id, 'bucket', o.bucket, 'name', o.name, 'owner', o.owner, 'size', o.size,
      'content_type', o.content_type, 'metadata', o.metadata, 'created_at', o.created_at, 'updated_at', o.updated_at), actor, request
    from new_rows n join old_rows o on o.id = n.id;
    insert into svc.object_bytes (object, xid, blob_id, sha256, app_id, is_operators)
    select o.id, pg_current_xact_id(), o.blob_id, o.sha256, o.app_id, o.is_operators from old_rows o on conflict do nothing;
  end if;
  return null;
end $$;

-- What is counted, released and logged is so whatever session_replication_role says: undo switches triggers of others off.
alter table svc.objects
  enable always trigger count_on_insert, enable always trigger count_on_update, enable always trigger count_on_delete,
  enable always trigger sum_on_insert, enable always trigger sum_on_update, enable always trigger sum_on_delete,
  enable always trigger release_on_update, enable always trigger release_on_delete,
  enable always trigger log_on_insert, enable always trigger log_on_update, enable always trigger log_on_delete;

-- Makes the inverse of one change of an object, for an undo. The login of undo has no right to objects, because code of others runs as
-- it; only the server knows the key. Answers what is in the way. Foreign keys are not checked in an undo, so the bytes are held here.
create function svc.undo_object(log_key text, change_id bigint, force boolean) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set intervalstyle = 'postgres' as $$
declare
  change record;
  kept svc.object_bytes;
  current jsonb;
  names text[];
begin
  perform svc.require_log_key(log_key);
  select c.xid, c.action, c.old_now, c.new_now into change from svc.told_changes c
  where c.id = change_id and c.table_oid = 'svc.objects'::regclass
    and c.entry = (select e.id from svc.change_log e where e.id <= change_id order by e.id desc limit 1);
  current := svc.locked_image('svc.objects', coalesce(change.new_now, change.old_now));
  if not svc.is_image(current, change.new_now) and not force then
    return case when change.new_now is null then 'there is an object of this id again' when current is null then 'the object is gone'
      else 'the object has changed since' end;
  end if;
  if change.old_now is null then
    delete from svc.objects o where o.id = (current ->> 'id')::uuid;
    return null;
  end if;
  select b.* into kept from svc.object_bytes b join svc.blobs l on l.id = b.blob_id
  where b.object = (change.old_now ->> 'id')::uuid and b.xid = change.xid for key share of l;
  if not found then
    return 'the bytes are gone';
  end if;
  change.old_now := change.old_now || jsonb_build_object('blob_id', kept.blob_id, 'sha256', kept.sha256, 'app_id', kept.app_id, 'is_operators', kept.is_operators);
  if current is null then
    names := svc.written_columns('svc.objects'::regclass, array(select jsonb_object_keys(change.old_now)));
    execute format('insert into svc.objects (%1$s) select %1$s from jsonb_populate_record(null::svc.objects, $1)', array_to_string(names, ', ')) using change.old_now;
  else
    update svc.objects o set bucket = t.bucket, name = t.name, content_type = t.content_type, owner = t.owner, metadata = t.metadata, size = t.size,
      blob_id = t.blob_id, sha256 = t.sha256, app_id = t.app_id, is_operators = t.is_operators, created_at = t.created_at, updated_at = t.updated_at
    from jsonb_populate_record(null::svc.objects, change.old_now) t where o.id = (current ->> 'id')::uuid;
  end if;
  return null;
exception when unique_violation then
  return sqlerrm;
end $$;
revoke execute on function svc.undo_object(text, bigint, boolean) from public;

drop function svc.undo_changes(bigint[], boolean, text, text, jsonb);
-- As 0097_undo.sql made it, with objects of buckets. Makes the inverse writes of these changes in this transaction. Answers {undone, conflicts}; with conflicts the caller rolls
-- back. It runs with the rights of its caller: checks, defaults and ALWAYS triggers are other people's code.
create function svc.undo_changes(ids bigint[], force boolean, actor text, request text, undoes jsonb, log_key text) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp set timezone = 'UTC' set intervalstyle = 'postgres' as $$
declare
  is_replica constant boolean := current_setting('session_replication_role') = 'replica';
  change record;
  current jsonb;
  target regclass;
  names text[];
  made jsonb;
  wrote boolean;
  problem text;
  conflicts jsonb := '[]';
  undone jsonb[] := '{}';
  promised jsonb[] := '{}';
  place text;
  wanted record;
  is_logged boolean;
begin
  if not is_replica then
    set constraints all deferred;
  end if;
  for change in
    select c.id, c.at, c.action, c.table_oid, c.schema_name, c.table_name, c.key, c.is_there, c.old_now, c.new_now, c.key_text
    from svc.told_changes c
    -- Each entry by the index: an id alone finds no packed one.
    where c.id = any (ids) and c.entry in (
      select (select e.id from svc.change_log e where e.id <= i.id order by e.id desc limit 1) from unnest(ids) as i(id))
    order by c.id desc
  loop
    problem := null;
    current := null;
    wrote := false;
    target := change.table_oid;
    place := change.table_oid || ' ' || coalesce(change.key_text, '');
    continue when conflicts <> '[]' and exists (select from jsonb_array_elements(conflicts) as c where c ->> 'place' = place);
    begin
      if not change.is_there then
        problem := 'the table is gone';
      elsif target = 'svc.objects'::regclass then
        problem := svc.undo_object(log_key, change.id, force);
      elsif change.schema_name = 'svc' then
        problem := 'tables of the server are not undone';
      elsif change.action not in ('create', 'update', 'delete') then
        problem := 'the rows were not logged';
      elsif change.key is null or svc.same_key(target) is null then
        problem := 'the table has no primary key';
      elsif (change.action <> 'create' and coalesce(change.old_now, '{}') = '{}') or (change.action <> 'delete' and coalesce(change.new_now, '{}') = '{}') then
        problem := 'the log no longer has the row';
      else
        current := svc.locked_image(target, coalesce(change.new_now, change.old_now));
        if not svc.is_image(current, change.new_now) and not force then
          problem := case when change.new_now is null then 'there is a row of this key again' when current is null then 'the row is gone'
            else 'the row has changed since' end;
        elsif change.old_now is null and current is not null then
          -- Before the delete, where it would take them along.
          if not is_replica then
            problem := 'rows refer to it: ' || svc.violated_key(target, current, true, false);
          end if;
          if problem is null then
            wrote := true;
            execute format('delete from %1$s t using jsonb_populate_record(null::%1$s, $1) given where %2$s', target, svc.same_key(target))
              using current;
          end if;
        elsif change.old_now is not null and current is null then
          names := svc.written_columns(target, array(select jsonb_object_keys(change.old_now)));
          execute format('insert into %1$s (%2$s) overriding system value select %2$s from jsonb_populate_record(null::%1$s, $1)', target, array_to_string(names, ', '))
            using change.old_now;
          wrote := true;
        elsif change.old_now is not null then
          names := svc.written_columns(target, array(
            select k from jsonb_object_keys(change.old_now) as k where change.old_now -> k is distinct from current -> k));
          if names <> '{}' then
            execute format('update %1$s t set (%2$s) = row(%4$s) from jsonb_populate_record(null::%1$s, $1) given,
              jsonb_populate_record(null::%1$s, $2) then_ where %3$s', target, array_to_string(names, ', '), svc.same_key(target),
              (select string_agg('then_.' || n, ', ' order by i) from unnest(names) with ordinality as u(n, i))) using current, change.old_now;
            wrote := true;
          end if;
        end if;
        if wrote then
          is_logged := exists (select from pg_trigger t where t.tgrelid = target and t.tgname = 'svc_watch'
            and (t.tgenabled = 'A' or (t.tgenabled = 'O' and not is_replica)));
          if not is_logged then
            made := case when change.old_now is not null then svc.locked_image(target, change.old_now) end;
            insert into svc.change_log (shape, table_oid, action, key, record, old_record, actor, request_id)
            select s.id, target, case when made is null then 'd' when current is null then 'c' else 'u' end,
              svc.key_of(coalesce(made, current), s.key_columns), made::json, current::json, undo_changes.actor, request
            from svc.keep_shape(target) s;
          end if;
        end if;
      end if;
    exception
      when integrity_constraint_violation or data_exception or syntax_error_or_access_rule_violation or raise_exception
        or object_not_in_prerequisite_state or with_check_option_violation then
        problem := sqlerrm;
    end;
    if problem is not null then
      conflicts := conflicts || (
        select jsonb_build_array(jsonb_build_object('place', place, 'table', svc.table_label(change.schema_name, change.table_name),
          'key', change.key, 'changed_at', l.at, 'by', l.actor, 'message', problem))
        from (select 1) one left join lateral (
          select to_char(v.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at, v.actor
          from svc.changes_of(change.table_oid, change.key_text) v where v.xid <> pg_current_xact_id() order by v.id desc limit 1
        ) l on true);
    else
      undone := undone || jsonb_build_object('table', svc.table_label(change.schema_name, change.table_name), 'key', change.key,
        'action', case when change.old_now is null then 'delete' when change.new_now is null then 'create' else 'update' end);
      -- Objects have no code of others and no rows that refer to them.
      continue when target = 'svc.objects'::regclass;
      -- What was made of a row last holds; a key that changed names two rows.
      if change.new_now is not null then
        promised := promised || jsonb_build_object('place', place, 'target', change.table_oid, 'gone', change.new_now,
          'there', null, 'key', change.key, 'label', svc.table_label(change.schema_name, change.table_name));
      end if;
      if change.old_now is not null then
        promised := promised || jsonb_build_object('place', change.table_oid || ' ' || coalesce(svc.key_text_of(target, change.old_now), ''),
          'target', change.table_oid, 'gone', change.new_now, 'there', change.old_now,
          'key', change.key, 'label', svc.table_label(change.schema_name, change.table_name));
      end if;
    end if;
  end loop;
  if conflicts = '[]' then
    if not is_replica then
      begin
        set constraints all immediate;
      exception when integrity_constraint_violation then
        conflicts := jsonb_build_array(jsonb_build_object('table', null, 'key', null, 'changed_at', null, 'by', null, 'message', sqlerrm));
      end;
    end if;
    for wanted in
      select distinct on (p.value ->> 'place') p.value from unnest(promised) with ordinality as p(value, n)
      order by p.value ->> 'place', p.n desc
    loop
      target := (wanted.value ->> 'target')::oid;
      problem := null;
      current := svc.locked_image(target, coalesce(nullif(wanted.value -> 'there', 'null'), wanted.value -> 'gone'));
      if not svc.is_image(current, nullif(wanted.value -> 'there', 'null')) then
        problem := 'a trigger made something else of the row';
      elsif current is not null then
        problem := 'a row that it refers to is gone: ' || svc.violated_key(target, current, false, false);
      end if;
      if problem is null and nullif(wanted.value -> 'gone', 'null') is not null then
        problem := 'rows refer to it: ' || svc.violated_key(target, wanted.value -> 'gone', true, true);
      end if;
      if problem is not null then
        conflicts := conflicts || jsonb_build_array(jsonb_build_object('table', wanted.value -> 'label', 'key', wanted.value -> 'key',
          'changed_at', null, 'by', null, 'message', problem));
      end if;
    end loop;
  end if;
  if conflicts = '[]' then
    insert into svc.undone (xid, undoes) values (pg_current_xact_id(), undoes);
  end if;
  return jsonb_build_object('transaction', pg_current_xact_id()::text, 'undone', to_jsonb(undone),
    'conflicts', (select coalesce(jsonb_agg(c - 'place'), '[]') from jsonb_array_elements(conflicts) as c));
end $$;
