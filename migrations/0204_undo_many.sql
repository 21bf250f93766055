-- Undo of many rows: what is known of a table is looked up once, and what became of the rows is looked at together.

-- What an undo needs to know of a table: how a row is read and locked by its key (`given`), which columns can be written, and whether a
-- trigger logs what is written. No key: nothing to read by.
create function svc.undo_facts(target regclass, is_replica boolean) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select jsonb_build_object('same_key', k.same_key,
    'row', format('select to_jsonb(t.*)%s as current from %s t', ' || ' || svc.converted_columns(target, '(t)'), target),
    'key_columns', (select d.key_columns from svc.describe_table(target) d),
    'columns', array(select a.attname from pg_attribute a
      where a.attrelid = target and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' order by a.attnum),
    'is_logged', exists (select from pg_trigger t where t.tgrelid = target and t.tgname = 'svc_watch'
      and (t.tgenabled = 'A' or (t.tgenabled = 'O' and not is_replica))))
  from (select svc.same_key(target) as same_key) k
$$;

-- As svc.violated_key in 0155_lesser_roles.sql, for many images: the number of each that violates a foreign key, with the name of one.
create function svc.violated_keys(target regclass, images jsonb[], as_parent boolean, is_gone boolean) returns table (n bigint, name text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  fk record;
begin
  for fk in
    select c.conname, c.conrelid::regclass as child, c.confrelid::regclass as parent,
      string_agg(format('c.%I = given.%I', a.attname, b.attname), ' and ') as child_of,
      string_agg(format('p.%1$I = given.%1$I', b.attname), ' and ') as same_parent,
      string_agg(format('p.%I = given.%I', b.attname, a.attname), ' and ') as parent_of,
      string_agg(format('given.%I is not null', a.attname), ' and ') as refers,
      -- The column that names an account.
      case when count(*) = 1 and c.confrelid = 'svc.users'::regclass and min(b.attname) = 'id' then format('%I', min(a.attname)) end as account
    from pg_constraint c cross join unnest(c.conkey, c.confkey) as k(child, parent)
    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.child
    join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.parent
    where c.contype = 'f' and c.conparentid = 0 and case when as_parent then c.confrelid else c.conrelid end = target
    group by c.oid, c.conname, c.conrelid, c.confrelid
  loop
    if as_parent then
      return query execute format('select i.n, %5$L::text from unnest($1) with ordinality as i(image, n), jsonb_populate_record(null::%2$s, i.image) given
          where i.image is not null and exists (select from %1$s c where %3$s and (not $2 or not exists (select from %2$s p where %4$s)))',
          fk.child, fk.parent, fk.child_of, fk.same_parent, fk.conname)
        using images, is_gone;
    elsif fk.account is not null then
      return query execute format('select i.n, %4$L::text from unnest($1) with ordinality as i(image, n), jsonb_populate_record(null::%2$s, i.image) given
          where %3$s and not svc.user_is_there(given.%1$s)', fk.account, fk.child, fk.refers, fk.conname)
        using images;
    else
      return query execute format('select i.n, %5$L::text from unnest($1) with ordinality as i(image, n), jsonb_populate_record(null::%2$s, i.image) given
          where %4$s and not exists (select from %1$s p where %3$s for key share of p)', fk.parent, fk.child, fk.parent_of, fk.refers, fk.conname)
        using images;
    end if;
  end loop;
end $$;

-- As 0182_undo_objects.sql made it. Makes the inverse writes of these changes in this transaction. Answers {undone, conflicts}; with conflicts the caller rolls
-- back. It runs with the rights of its caller: checks, defaults and ALWAYS triggers are other people's code.
create or replace function svc.undo_changes(ids bigint[], force boolean, actor text, request text, undoes jsonb, log_key text) returns jsonb
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
  known jsonb := '{}';
  facts jsonb;
  key_columns text[];
  read text;
  chunk record;
  currents jsonb[];
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
    if change.is_there and not known ? change.table_oid::text then
      known := known || jsonb_build_object(change.table_oid, svc.undo_facts(target, is_replica));
    end if;
    facts := known -> change.table_oid::text;
    key_columns := array(select jsonb_array_elements_text(facts -> 'key_columns'));
    read := format('%s, jsonb_populate_record(null::%s, $1) given where %s for update of t', facts ->> 'row', target, facts ->> 'same_key');
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
      elsif change.key is null or facts ->> 'same_key' is null then
        problem := 'the table has no primary key';
      elsif (change.action <> 'create' and coalesce(change.old_now, '{}') = '{}') or (change.action <> 'delete' and coalesce(change.new_now, '{}') = '{}') then
        problem := 'the log no longer has the row';
      else
        execute read into current using coalesce(change.new_now, change.old_now);
        if not svc.is_image(current, change.new_now) and not force then
          problem := case when change.new_now is null then 'there is a row of this key again' when current is null then 'the row is gone'
            else 'the row has changed since' end;
        elsif change.old_now is null and current is not null then
          -- Before the delete, where it would take them along.
          if not is_replica then
            problem := 'rows refer to it: ' || (select v.name from svc.violated_keys(target, array[current], true, false) v limit 1);
          end if;
          if problem is null then
            wrote := true;
            execute format('delete from %1$s t using jsonb_populate_record(null::%1$s, $1) given where %2$s', target, facts ->> 'same_key')
              using current;
          end if;
        elsif change.old_now is not null and current is null then
          names := array(select format('%I', c) from jsonb_array_elements_text(facts -> 'columns') as c where change.old_now ? c);
          execute format('insert into %1$s (%2$s) overriding system value select %2$s from jsonb_populate_record(null::%1$s, $1)', target, array_to_string(names, ', '))
            using change.old_now;
          wrote := true;
        elsif change.old_now is not null then
          names := array(select format('%I', c) from jsonb_array_elements_text(facts -> 'columns') as c
            where change.old_now ? c and change.old_now -> c is distinct from current -> c);
          if names <> '{}' then
            execute format('update %1$s t set (%2$s) = row(%4$s) from jsonb_populate_record(null::%1$s, $1) given,
              jsonb_populate_record(null::%1$s, $2) then_ where %3$s', target, array_to_string(names, ', '), facts ->> 'same_key',
              (select string_agg('then_.' || n, ', ' order by i) from unnest(names) with ordinality as u(n, i))) using current, change.old_now;
            wrote := true;
          end if;
        end if;
        if wrote and not (facts ->> 'is_logged')::boolean then
          made := null;
          if change.old_now is not null then
            execute read into made using change.old_now;
          end if;
          insert into svc.change_log (shape, table_oid, action, key, record, old_record, actor, request_id)
          values ((svc.keep_shape(target)).id, target, case when made is null then 'd' when current is null then 'c' else 'u' end,
            svc.key_of(coalesce(made, current), key_columns), made::json, current::json, undo_changes.actor, request);
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
        promised := promised || jsonb_build_object('place', change.table_oid || ' ' || coalesce(svc.key_of(change.old_now, key_columns), ''),
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
    for chunk in
      select last.target, array_agg(last.value order by last.place) as items from (
        select p.*, (row_number() over (partition by p.target order by p.place) - 1) / 200 as part from (
          select distinct on (u.value ->> 'place') u.value ->> 'place' as place, (u.value ->> 'target')::oid as target, u.value
          from unnest(promised) with ordinality as u(value, n) order by u.value ->> 'place', u.n desc
        ) p
      ) last group by last.target, last.part order by last.target, last.part
    loop
      target := chunk.target;
      facts := known -> chunk.target::text;
      execute format($sql$select array_agg(c.current order by w.n) from unnest($1) with ordinality as w(value, n) left join lateral (
          %1$s, jsonb_populate_record(null::%2$s, coalesce(nullif(w.value -> 'there', 'null'), w.value -> 'gone')) given where %3$s for update of t
        ) c on true$sql$, facts ->> 'row', target, facts ->> 'same_key') into currents using chunk.items;
      conflicts := conflicts || (
        select coalesce(jsonb_agg(jsonb_build_object('table', i.item -> 'label', 'key', i.item -> 'key', 'changed_at', null, 'by', null,
          'message', i.problem) order by i.n), '[]')
        from (
          select w.item, w.n, case
            when not svc.is_image(w.current, nullif(w.item -> 'there', 'null')) then 'a trigger made something else of the row'
            else coalesce('a row that it refers to is gone: ' || r.name, 'rows refer to it: ' || c.name) end as problem
          from unnest(chunk.items, currents) with ordinality as w(item, current, n)
          left join (select v.n, min(v.name) as name from svc.violated_keys(target, currents, false, false) v group by v.n) r on r.n = w.n
          left join (select v.n, min(v.name) as name from svc.violated_keys(
              target, array(select nullif(g.item -> 'gone', 'null') from unnest(chunk.items) with ordinality as g(item, n) order by g.n), true, true) v
            group by v.n) c on c.n = w.n
        ) i where i.problem is not null);
    end loop;
  end if;
  if conflicts = '[]' then
    insert into svc.undone (xid, undoes) values (pg_current_xact_id(), undoes);
  end if;
  return jsonb_build_object('transaction', pg_current_xact_id()::text, 'undone', to_jsonb(undone),
    'conflicts', (select coalesce(jsonb_agg(c - 'place'), '[]') from jsonb_array_elements(conflicts) as c));
end $$;

drop function svc.violated_key(regclass, jsonb, boolean, boolean);
drop function svc.key_text_of(oid, jsonb);
