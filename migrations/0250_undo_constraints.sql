-- Undo holds what the database would hold. While triggers are off, PostgreSQL leaves deferrable constraints unchecked.

-- The rows of a table itself, as its keys and constraints count them: not those of tables that inherit from it.
create function svc.own_rows(target regclass) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when k.relkind = 'p' then '' else 'only ' end || target::text from pg_class k where k.oid = target
$$;

-- An image in the log, which `image` is an expression of, as a row of its table: a FROM item.
create function svc.image_row(target regclass, image text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select format('jsonb_populate_record(null::%s, %s)', target, image)
$$;

-- The comparison of two values as a constraint makes it: by its own operator, and by the collation of the first.
create function svc.comparison(one text, op oid, other text, collated oid default 0) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select format('%s operator(%I.%s) %s%s', one, n.nspname, o.oprname, other, ' collate ' || nullif(collated, 0)::regcollation)
  from pg_operator o join pg_namespace n on n.oid = o.oprnamespace where o.oid = op
$$;

-- The deferrable constraints of a table and of its partitions, but for foreign keys. `alike`: when rows t and r of `place` conflict.
-- `keys`: what is compared, of a row t. `condition`: which rows count.
create function svc.deferrable_constraints(target regclass) returns table (name text, place regclass, keys text, alike text, condition text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select c.conname::text, c.conrelid::regclass, k.keys, k.alike, coalesce(pg_get_expr(i.indpred, i.indrelid), 'true')
  from pg_constraint c
  join pg_index i on i.indexrelid = c.conindid
  cross join lateral (
    select string_agg(format('(%s) as svc_%s', e.value, e.n), ', ' order by e.n) as keys,
      string_agg(case when to_jsonb(i) ->> 'indnullsnotdistinct' = 'true' then format('(%s or (t.svc_%s is null and r.svc_%2$s is null))', e.same, e.n)
        else e.same end, ' and ' order by e.n) as alike
    from (
      select n, pg_get_indexdef(i.indexrelid, n, false) as value,
        svc.comparison('t.svc_' || n, coalesce(c.conexclop[n], m.amopopr), 'r.svc_' || n, i.indcollation[n - 1]) as same
      from generate_series(1, i.indnkeyatts::int) n
      join pg_opclass o on o.oid = i.indclass[n - 1]
      left join pg_amop m on c.conexclop is null and m.amopfamily = o.opcfamily and m.amopstrategy = 3
        and m.amoplefttype = o.opcintype and m.amoprighttype = o.opcintype
    ) e
  ) k
  where c.condeferrable and c.contype in ('p', 'u', 'x')
    and (c.conrelid = target or (c.conparentid = 0 and c.conrelid in (select t.relid from pg_partition_tree(target) t)))
$$;

-- Locks the tables of these changes that have such constraints against writers, before any row is locked: a transaction that
-- waits for no lock may hold a row that is not seen here, and does not see ours.
create function svc.lock_deferrable(ids bigint[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  target regclass;
begin
  for target in
    select distinct k.oid::regclass from svc.change_log c join pg_class k on k.oid = c.table_oid
    where c.id in (select (select e.id from svc.change_log e where e.id <= i.id order by e.id desc limit 1) from unnest(ids) as i(id))
      and k.relnamespace <> 'svc'::regnamespace and exists (select from svc.deferrable_constraints(k.oid))
    order by 1
  loop
    execute format('lock table %s in share row exclusive mode', svc.own_rows(target));
  end loop;
end $$;

-- The number of each row with one of these images that is in the way of another, with the name of a constraint.
create function svc.violated_deferrables(target regclass, images jsonb[]) returns table (n bigint, name text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  con record;
begin
  for con in select * from svc.deferrable_constraints(target) loop
    return query execute format('select i.n, %L::text from unnest($1) with ordinality as i(image, n), %s given,
        lateral (select t.tableoid as svc_table, t.ctid as svc_row, %s from %s t where %s and (%s)) r
      where i.image is not null and exists (
        select from (select t.tableoid as svc_table, t.ctid as svc_row, %3$s from %4$s t where %6$s) t
        where %s and not (t.svc_table = r.svc_table and t.svc_row = r.svc_row))',
      con.name, svc.image_row(target, 'i.image'), con.keys, svc.own_rows(con.place), svc.same_key(target), con.condition, con.alike) using images;
  end loop;
end $$;

-- As 0204_undo_many.sql made it, by the operators and collations of each key, and with keys of periods. What is not enforced is not held.
create or replace function svc.violated_keys(target regclass, images jsonb[], as_parent boolean, is_gone boolean) returns table (n bigint, name text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  fk record;
begin
  for fk in
    select c.conname, c.conrelid::regclass as child, c.confrelid::regclass as parent, svc.own_rows(c.conrelid) as children, svc.own_rows(c.confrelid) as parents,
      string_agg(svc.comparison(format('given.%I', k.parent), k.parent_is_child, format('c.%I', k.child), k.collated), ' and ') filter (where not k.is_period) as child_of,
      string_agg(svc.comparison(format('p.%I', k.parent), k.parent_is_parent, format('given.%I', k.parent)), ' and ') filter (where not k.is_period) as same_parent,
      string_agg(svc.comparison(format('p.%I', k.parent), k.parent_is_child, format('given.%I', k.child), k.collated), ' and ') filter (where not k.is_period) as parent_of,
      string_agg(format('given.%I is not null', k.child), ' and ') as refers,
      min(format('%I', k.child)) filter (where k.is_period) as child_period, min(format('%I', k.parent)) filter (where k.is_period) as parent_period,
      -- The column that names an account.
      case when count(*) = 1 and c.confrelid = 'svc.users'::regclass and min(k.parent) = 'id' then format('%I', min(k.child)) end as account
    from pg_constraint c cross join lateral (
      select a.attname::text as child, b.attname::text as parent, u.parent_is_child, u.parent_is_parent,
        case when a.attcollation <> b.attcollation then b.attcollation else 0 end as collated,
        coalesce((to_jsonb(c) ->> 'conperiod')::boolean, false) and u.i = cardinality(c.conkey) as is_period
      from unnest(c.conkey, c.confkey, c.conpfeqop, c.conppeqop) with ordinality as u(child, parent, parent_is_child, parent_is_parent, i)
      join pg_attribute a on a.attrelid = c.conrelid and a.attnum = u.child
      join pg_attribute b on b.attrelid = c.confrelid and b.attnum = u.parent
    ) k
    where c.contype = 'f' and to_jsonb(c) ->> 'conenforced' is distinct from 'false'
      and (c.conparentid = 0 or (select k.relispartition from pg_class k where k.oid = target))
      and case when as_parent then c.confrelid else c.conrelid end = target
    group by c.oid, c.conname, c.conrelid, c.confrelid
  loop
    if fk.child_period is not null and as_parent and not is_gone then
      -- Such a key takes no rows along, and PostgreSQL itself refuses what it does not allow.
      continue;
    elsif fk.child_period is not null and as_parent then
      return query execute format('select i.n, %L::text from unnest($1) with ordinality as i(image, n), %s given
          where i.image is not null and exists (select from %s c where %s and c.%s && given.%s
            and (c.%5$s <@ (select range_agg(p.%6$s) from %s p where %s and p.%6$s && c.%5$s)) is not true)',
          fk.conname, svc.image_row(fk.parent, 'i.image'), fk.children, fk.child_of, fk.child_period, fk.parent_period, fk.parents, fk.same_parent)
        using images;
    elsif fk.child_period is not null then
      return query execute format('select i.n, %L::text from unnest($1) with ordinality as i(image, n), %s given
          where %s and (given.%s <@ (select range_agg(p.period) from (
            select p.%s as period from %s p where %s and p.%5$s && given.%4$s for key share of p) p)) is not true',
          fk.conname, svc.image_row(fk.child, 'i.image'), fk.refers, fk.child_period, fk.parent_period, fk.parents, fk.parent_of)
        using images;
    elsif as_parent then
      return query execute format('select i.n, %L::text from unnest($1) with ordinality as i(image, n), %s given
          where i.image is not null and exists (select from %s c where %s and (not $2 or not exists (select from %s p where %s)))',
          fk.conname, svc.image_row(fk.parent, 'i.image'), fk.children, fk.child_of, fk.parents, fk.same_parent)
        using images, is_gone;
    elsif fk.account is not null then
      return query execute format('select i.n, %L::text from unnest($1) with ordinality as i(image, n), %s given
          where %s and not svc.user_is_there(given.%s)', fk.conname, svc.image_row(fk.child, 'i.image'), fk.refers, fk.account)
        using images;
    else
      return query execute format('select i.n, %L::text from unnest($1) with ordinality as i(image, n), %s given
          where %s and not exists (select from %s p where %s for key share of p)',
          fk.conname, svc.image_row(fk.child, 'i.image'), fk.refers, fk.parents, fk.parent_of)
        using images;
    end if;
  end loop;
end $$;

-- As 0204_undo_many.sql made both, but what is computed of a row is not compared. Of columns that are written there is what is written, of a row then_: JSON null of a column that is
-- never NULL is JSON's own, which an image does not tell from NULL.
create or replace function svc.undo_facts(target regclass, is_replica boolean) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select f.facts || jsonb_build_object('read', format('%s, %s given where %s for update of t', f.facts ->> 'row', f.facts ->> 'given', f.facts ->> 'same_key'))
  from (
    select jsonb_build_object('same_key', svc.same_key(target), 'rows', svc.own_rows(target), 'given', svc.image_row(target, '$1'), 'then', svc.image_row(target, '$2'),
      'row', format('select to_jsonb(t.*)%s as current from %s t', ' || ' || svc.converted_columns(target, 't'), svc.own_rows(target)),
      'key_columns', (select d.key_columns from svc.describe_table(target) d),
      'columns', (select coalesce(jsonb_object_agg(a.attname, format(case when a.attnotnull and coalesce(nullif(t.typbasetype, 0), t.oid) in (114, 3802)
            then 'coalesce(then_.%I, ''null'')' else 'then_.%I' end, a.attname)), '{}')
        from pg_attribute a join pg_type t on t.oid = a.atttypid
        where a.attrelid = target and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''),
      -- They follow from the others: an image may have been logged without them, or when their expression was another.
      'generated', array(select a.attname from pg_attribute a
        where a.attrelid = target and a.attnum > 0 and not a.attisdropped and a.attgenerated <> '' order by a.attnum),
      'is_logged', exists (select from pg_trigger t where t.tgrelid = target and t.tgname = 'svc_watch'
        and (t.tgenabled = 'A' or (t.tgenabled = 'O' and not is_replica)))) as facts
  ) f
$$;
create or replace function svc.undo_changes(ids bigint[], force boolean, actor text, request text, undoes jsonb, log_key text) returns jsonb
language plpgsql set search_path = pg_catalog, pg_temp set timezone = 'UTC' set intervalstyle = 'postgres' as $$
declare
  is_replica constant boolean := current_setting('session_replication_role') = 'replica';
  change record;
  current jsonb;
  target regclass;
  names text;
  inputs text;
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
  generated text[];
  chunk record;
  currents jsonb[];
begin
  if is_replica then
    perform svc.lock_deferrable(ids);
  else
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
    if change.is_there and not known ? change.table_oid::text then
      known := known || jsonb_build_object(change.table_oid, svc.undo_facts(target, is_replica));
    end if;
    facts := known -> change.table_oid::text;
    key_columns := array(select jsonb_array_elements_text(facts -> 'key_columns'));
    generated := array(select jsonb_array_elements_text(facts -> 'generated'));
    place := change.table_oid || ' ' || coalesce(svc.key_of(coalesce(change.new_now, change.old_now), key_columns), change.key_text, '');
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
        execute facts ->> 'read' into current using coalesce(change.new_now, change.old_now);
        if not svc.is_image(current, change.new_now - generated) and not force then
          problem := case when change.new_now is null then 'there is a row of this key again' when current is null then 'the row is gone'
            else 'the row has changed since' end;
        elsif change.old_now is null and current is not null then
          -- Before the delete, where it would take them along.
          if not is_replica then
            problem := 'rows refer to it: ' || (select v.name from svc.violated_keys(target, array[current], true, false) v limit 1);
          end if;
          if problem is null then
            wrote := true;
            execute format('delete from %s t using %s given where %s', facts ->> 'rows', facts ->> 'given', facts ->> 'same_key') using current;
          end if;
        elsif change.old_now is not null and current is null then
          select string_agg(format('%I', c.key), ', '), string_agg(c.value, ', ') into names, inputs
          from jsonb_each_text(facts -> 'columns') c where change.old_now ? c.key;
          execute format('insert into %s (%s) overriding system value select %s from %s then_', target, names, inputs, facts ->> 'given') using change.old_now;
          wrote := true;
        elsif change.old_now is not null then
          select string_agg(format('%I', c.key), ', '), string_agg(c.value, ', ') into names, inputs
          from jsonb_each_text(facts -> 'columns') c where change.old_now ? c.key and change.old_now -> c.key is distinct from current -> c.key;
          if names is not null then
            execute format('update %s t set (%s) = row(%s) from %s given, %s then_ where %s', facts ->> 'rows', names, inputs, facts ->> 'given',
              facts ->> 'then', facts ->> 'same_key') using current, change.old_now;
            wrote := true;
          end if;
        end if;
        if wrote and not (facts ->> 'is_logged')::boolean then
          made := null;
          if change.old_now is not null then
            execute facts ->> 'read' into made using change.old_now;
          end if;
          insert into svc.change_log (shape, table_oid, action, key, record, old_record, actor, request_id)
          values ((svc.keep_shape(target)).id, target, case when made is null then 'd' when current is null then 'c' else 'u' end,
            svc.key_of(coalesce(made, current), key_columns), made::json, current::json, undo_changes.actor, request);
        end if;
      end if;
    exception
      -- Of the class of object_not_in_prerequisite_state; each further row would wait as long.
      when lock_not_available then raise;
      when integrity_constraint_violation or data_exception or syntax_error_or_access_rule_violation or raise_exception
        or object_not_in_prerequisite_state or with_check_option_violation or internal_error then
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
      generated := array(select jsonb_array_elements_text(facts -> 'generated'));
      execute format($sql$select array_agg(c.current order by w.n) from unnest($1) with ordinality as w(value, n) left join lateral (
          %s, %s given where %s for update of t
        ) c on true$sql$, facts ->> 'row', svc.image_row(target, 'coalesce(nullif(w.value -> ''there'', ''null''), w.value -> ''gone'')'),
        facts ->> 'same_key') into currents using chunk.items;
      conflicts := conflicts || (
        select coalesce(jsonb_agg(jsonb_build_object('table', i.item -> 'label', 'key', i.item -> 'key', 'changed_at', null, 'by', null,
          'message', i.problem) order by i.n), '[]')
        from (
          select w.item, w.n, case
            when not svc.is_image(w.current, nullif(w.item -> 'there', 'null') - generated) then 'a trigger made something else of the row'
            else coalesce('a row that it refers to is gone: ' || r.name, 'another row conflicts with it: ' || u.name, 'rows refer to it: ' || c.name)
            end as problem
          from unnest(chunk.items, currents) with ordinality as w(item, current, n)
          left join (select v.n, min(v.name) as name from svc.violated_keys(target, currents, false, false) v group by v.n) r on r.n = w.n
          left join (select v.n, min(v.name) as name from svc.violated_deferrables(target, currents) v where is_replica group by v.n) u on u.n = w.n
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
