-- Undo: the inverse of logged changes, newest first, each held against the row as it is.

-- The row with the key of this image as the log writes it, locked; null when there is none.
create function svc.locked_image(target regclass, image jsonb) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp set timezone = 'UTC' set intervalstyle = 'postgres' as $$
declare
  current jsonb;
begin
  execute format('select to_jsonb(t.*)%1$s from %2$s t, jsonb_populate_record(null::%2$s, $1) given where %3$s for update of t',
    ' || ' || svc.converted_columns(target, '(t)'), target, svc.same_key(target)) into current using image;
  return current;
end $$;

-- Whether a row is what an image says of the columns that both have.
create function svc.is_image(current jsonb, image jsonb) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select (current is null) = (image is null) and not exists (
    select from jsonb_object_keys(image) as k where current ? k and current -> k is distinct from image -> k)
$$;

-- The columns of these names that can be written, quoted.
create function svc.written_columns(target oid, names text[]) returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(array_agg(format('%I', a.attname) order by a.attnum), '{}') from pg_attribute a
  where a.attrelid = target and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and a.attname = any (names)
$$;

-- Children of a row with this image, by foreign keys to columns whose values no row has any more (`is_gone`) or that the row
-- still has; and parents of it that are missing. Answers the name of a violated constraint. Parents are locked.
create function svc.violated_key(target regclass, image jsonb, as_parent boolean, is_gone boolean) returns text
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  fk record;
  violated boolean;
begin
  for fk in
    select c.conname, c.conrelid::regclass as child, c.confrelid::regclass as parent,
      (select string_agg(format('c.%I = given.%I', a.attname, b.attname), ' and ') from unnest(c.conkey, c.confkey) as k(child, parent)
       join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.child
       join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.parent) as child_of,
      (select string_agg(format('p.%1$I = given.%1$I', b.attname), ' and ') from unnest(c.confkey) as k(parent)
       join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.parent) as same_parent,
      (select string_agg(format('p.%I = given.%I', b.attname, a.attname), ' and ') from unnest(c.conkey, c.confkey) as k(child, parent)
       join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.child
       join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.parent) as parent_of,
      (select string_agg(format('given.%I is not null', a.attname), ' and ') from unnest(c.conkey) as k(child)
       join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.child) as refers
    from pg_constraint c
    where c.contype = 'f' and c.conparentid = 0 and case when as_parent then c.confrelid else c.conrelid end = target
  loop
    if as_parent then
      execute format('select exists (select from %1$s c, jsonb_populate_record(null::%2$s, $1) given where %3$s
          and (not $2 or not exists (select from %2$s p where %4$s)))', fk.child, fk.parent, fk.child_of, fk.same_parent)
        into violated using image, is_gone;
    else
      execute format('select not exists (select from %1$s p, jsonb_populate_record(null::%2$s, $1) given where %3$s for key share of p)
          from jsonb_populate_record(null::%2$s, $1) given where %4$s', fk.parent, fk.child, fk.parent_of, fk.refers)
        into violated using image;
    end if;
    if violated then
      return fk.conname;
    end if;
  end loop;
  return null;
end $$;

-- Makes the inverse writes of these changes in this transaction. Answers {undone, conflicts}; with conflicts the caller rolls
-- back. It runs with the rights of its caller: checks, defaults and ALWAYS triggers are other people's code.
create function svc.undo_changes(ids bigint[], force boolean, actor text, request text, undoes jsonb) returns jsonb
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
    from svc.told_changes c where c.id = any (ids) order by c.id desc
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

create function svc.key_text_of(target oid, image jsonb) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select svc.key_of(image, t.key_columns) from svc.describe_table(target) t
$$;

-- The log is written whatever session_replication_role says.
do $$
declare
  watched regclass;
begin
  for watched in select t.tgrelid from pg_catalog.pg_trigger t where t.tgname = 'svc_watch' and t.tgenabled = 'O' and t.tgparentid = 0 loop
    begin
      execute format('alter table %s enable always trigger svc_watch', watched);
    exception when insufficient_privilege then
      raise notice 'changes of % are not logged while session_replication_role is replica', watched;
    end;
  end loop;
end $$;

create or replace function svc.watch(target regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from pg_class where oid = target and relkind in ('r', 'p')) then
    raise exception '% is not a table', target;
  end if;
  if not exists (select from pg_trigger where tgrelid = target and tgname = 'svc_watch') then
    execute format('create trigger svc_watch after insert or update or delete on %s for each row execute function svc.log_change()', target);
    execute format('alter table %s enable always trigger svc_watch', target);
    perform svc.note_watched(target);
  end if;
end $$;
