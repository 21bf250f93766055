-- Virtual generated columns (PostgreSQL 18) are null in the rows that triggers see: their values are computed of those rows, so that
-- images in the log have what reads have.

-- The columns of a table whose rows are at hand: `whole` lists all of them, `computed` the virtual ones, `counted` takes each of their
-- values. Null for a table without virtual columns. PostgreSQL allows no functions or types of others in their expressions, and the cast
-- is one that pg_get_expr does not write.
create function svc.virtual_columns(target oid, out whole text, out computed text, out counted text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select string_agg(case when v.value is null then v.name else v.value || ' as ' || v.name end, ', ' order by v.attnum),
    string_agg(v.value || ' as ' || v.name, ', ' order by v.attnum),
    string_agg('count(' || v.value || ')', ', ' order by v.attnum)
  from (
    select a.attnum, format('%I', a.attname) as name, case when a.attgenerated = 'v' then
      format('(%s)::%s', pg_get_expr(d.adbin, d.adrelid), format_type(a.atttypid, a.atttypmod)) end as value
    from pg_attribute a left join pg_attrdef d on a.attgenerated = 'v' and d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = target and a.attnum > 0 and not a.attisdropped
  ) v having count(v.value) > 0
$$;

-- As 0070_change_log.sql made it, with the values of virtual columns as the watched table computes them.
create or replace function svc.log_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, MDY' set intervalstyle = 'postgres' set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
  watched record;
  shape record;
  conversions text;
  computed text;
  convert text;
  new_image jsonb;
  old_image jsonb;
begin
  select * into watched from svc.watched_table(TG_RELID);
  select * into shape from svc.keep_shape(watched.target);
  conversions := watched.conversions;
  if exists (select from pg_attribute a where a.attrelid = watched.target and a.attgenerated = 'v') then
    computed := format('(select to_jsonb(c.*) from (select %s from (select ($1).*) r) c)', (svc.virtual_columns(watched.target)).computed);
    begin
      if TG_OP <> 'DELETE' then
        execute 'select ' || computed using new;
      end if;
      if TG_OP <> 'INSERT' then
        execute 'select ' || computed using old;
      end if;
      conversions := concat_ws(' || ', conversions, computed);
    exception when others then
      null; -- See svc.log_statement().
    end;
  end if;
  convert := 'select to_jsonb($1) || ' || conversions;
  if TG_OP <> 'DELETE' and convert is null then
    new_image := to_jsonb(new);
  elsif TG_OP <> 'DELETE' then
    execute convert into new_image using new;
  end if;
  if TG_OP <> 'INSERT' and convert is null then
    old_image := to_jsonb(old);
  elsif TG_OP <> 'INSERT' then
    execute convert into old_image using old;
  end if;
  insert into svc.change_log (shape, table_oid, action, key, record, old_record, actor, request_id)
  values (
    shape.id,
    watched.target,
    case TG_OP when 'INSERT' then 'c' when 'UPDATE' then 'u' else 'd' end,
    svc.key_of(coalesce(new_image, old_image), shape.key_columns),
    new_image::json,
    old_image::json,
    svc.current_actor()::text,
    nullif(current_setting('svc.request_id', true), '')
  );
  return null;
end $$;

drop function svc.pack_form(oid, text, bigint, bigint);
-- As 0180_packed_statements.sql made it; `new_rows` and `old_rows` are what the transition tables are read by.
create function svc.pack_form(target oid, op text, made bigint, widest bigint, new_rows text, old_rows text, out pack_form text, out framing integer)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  new_forms record;
  old_forms record;
  per_entry bigint;
  alias constant text := case op when 'DELETE' then 'svc_o' else 'svc_n' end;
  key_form text;
  number_key text := (
    select a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
    where i.indrelid = target and i.indisprimary and i.indnkeyatts = 1 and a.atttypid in (20, 21, 23));
  source text;
  place text := (select format('%I', 'svc_i' || n) from generate_series(1, 2000) n
    where not exists (select from pg_attribute a where a.attrelid = target and a.attname = 'svc_i' || n) order by n limit 1);
begin
  select * into new_forms from svc.packed_forms(target, 'svc_n');
  select * into old_forms from svc.packed_forms(target, 'svc_o');
  framing := new_forms.framing * case op when 'UPDATE' then 2 else 1 end;
  per_entry := least(1000, 1048576 / (widest + framing));
  if per_entry < 50 then
    return;
  end if;
  select f.key_form into key_form from svc.logged_forms(target, alias) f;
  source := format(case op
    when 'INSERT' then '(select row_number() over () as %1$s, * from %2$s r) svc_n'
    when 'DELETE' then '(select row_number() over () as %1$s, * from %3$s r) svc_o'
    else '(select row_number() over () as %1$s, * from %2$s r) svc_n join (select row_number() over () as %1$s, * from %3$s r) svc_o using (%1$s)'
  end, place, new_rows, old_rows);
  -- No entry has one row: what is left over belongs to the last.
  pack_form := format('select count(*)::smallint as events, %s as new_columns, %s as old_columns, %s as key_hashes from %s group by g.g order by g.g',
    case op when 'DELETE' then 'null::svc.pack_column[]' else new_forms.columns_form end,
    case op when 'INSERT' then 'null::svc.pack_column[]' else old_forms.columns_form end,
    case
      when key_form = 'null::text' then '''{}''::bigint[]'
      when number_key is not null then format('svc.block_hashes(array_agg(distinct %s.%I::bigint >> 7))', alias, number_key)
      else format('array_agg(hashtextextended(%s, 0))', key_form)
    end,
    source || format(' cross join lateral (select least((%s - 1) / %s, %s) as g) g', place, per_entry, (made - 2) / per_entry));
end $$;

-- As 0180_packed_statements.sql made it, with the values of virtual columns.
create or replace function svc.log_statement() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, MDY' set intervalstyle = 'postgres' set bytea_output = 'hex' set extra_float_digits = 1 set work_mem = '16MB' as $$
declare
  forms record;
  old_forms record;
  shape bigint;
  actor text;
  request text := nullif(current_setting('svc.request_id', true), '');
  made bigint;
  widest bigint;
  pack record;
  entry bigint;
  virtual record;
  new_source text := 'new_rows';
  old_source text := 'old_rows';
begin
  if TG_NAME <> 'svc_watch' and not svc.is_watched(TG_RELID) then
    return null;
  end if;
  if TG_OP = 'INSERT' then
    select count(*) into made from (select from new_rows limit 500) few;
  elsif TG_OP <> 'TRUNCATE' then
    select count(*) into made from (select from old_rows limit 500) few;
  end if;
  if made = 0 then
    return null;
  end if;
  shape := (svc.keep_shape(TG_RELID)).id;
  actor := svc.current_actor()::text;
  if TG_OP = 'TRUNCATE' then
    insert into svc.change_log (shape, table_oid, action, actor, request_id) values (shape, TG_RELID, 't', actor, request);
    return null;
  end if;
  if exists (select from pg_attribute a where a.attrelid = TG_RELID and a.attgenerated = 'v') then
    virtual := svc.virtual_columns(TG_RELID);
    begin
      if TG_OP <> 'DELETE' then
        execute format('select %s from new_rows', virtual.counted);
      end if;
      if TG_OP <> 'INSERT' then
        execute format('select %s from old_rows', virtual.counted);
      end if;
      new_source := format('(select %s from new_rows)', virtual.whole);
      old_source := format('(select %s from old_rows)', virtual.whole);
    exception when others then
      null; -- Who writes or mends a row of which an expression raises is not held up: the images lack the values then.
    end;
  end if;
  -- Values of these types are made JSON in another form than their own, one by one.
  if made = 500 and not exists (select from pg_extension e where e.extname in ('postgis', 'vector') and svc.converted_columns(TG_RELID, 't') is not null) then
    execute format('select count(*), max(%s) from %s svc_n',
      coalesce((svc.packed_forms(TG_RELID, 'svc_n')).size_form, '0'), case TG_OP when 'DELETE' then old_source else new_source end) into made, widest;
    if TG_OP = 'UPDATE' then
      execute format('select $1 + max(%s) from %s svc_n', coalesce((svc.packed_forms(TG_RELID, 'svc_n')).size_form, '0'), old_source) into widest using widest;
    end if;
    select * into forms from svc.pack_form(TG_RELID, TG_OP, made, widest, new_source, old_source);
    if forms.pack_form is not null then
      for pack in execute forms.pack_form loop
        insert into svc.change_log (shape, table_oid, events, action, actor, request_id)
        values (shape, TG_RELID, pack.events, case TG_OP when 'INSERT' then 'c' when 'UPDATE' then 'u' else 'd' end, actor, request) returning id into entry;
        insert into svc.change_packs (id, bytes, new_columns, old_columns, key_hashes)
        values (entry, coalesce(pg_column_size(pack.new_columns), 0) + coalesce(pg_column_size(pack.old_columns), 0) + pack.events * forms.framing,
          pack.new_columns, pack.old_columns, pack.key_hashes);
      end loop;
      return null;
    end if;
  end if;
  forms := svc.logged_forms(TG_RELID, 'svc_n');
  if TG_OP = 'INSERT' then
    execute format('insert into svc.change_log (shape, table_oid, action, key, record, actor, request_id)
      select $1, $2, ''c'', %s, %s, $3, $4 from %s svc_n', forms.key_form, forms.image_form, new_source) using shape, TG_RELID, actor, request;
  elsif TG_OP = 'DELETE' then
    execute format('insert into svc.change_log (shape, table_oid, action, key, old_record, actor, request_id)
      select $1, $2, ''d'', %s, %s, $3, $4 from %s svc_n', forms.key_form, forms.image_form, old_source) using shape, TG_RELID, actor, request;
  else
    old_forms := svc.logged_forms(TG_RELID, 'svc_o');
    execute format('insert into svc.change_log (shape, table_oid, action, key, record, old_record, actor, request_id)
      select $1, $2, ''u'', n.key, n.image, o.image, $3, $4
      from (select row_number() over () as i, %s as key, %s as image from %s svc_n) n
      join (select row_number() over () as i, %s as image from %s svc_o) o on o.i = n.i order by n.i',
      forms.key_form, forms.image_form, new_source, old_forms.image_form, old_source) using shape, TG_RELID, actor, request;
  end if;
  return null;
end $$;

-- As 0204_undo_many.sql made both, but what is computed of a row is not compared.
create or replace function svc.undo_facts(target regclass, is_replica boolean) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select jsonb_build_object('same_key', k.same_key,
    'row', format('select to_jsonb(t.*)%s as current from %s t', ' || ' || svc.converted_columns(target, '(t)'), target),
    'key_columns', (select d.key_columns from svc.describe_table(target) d),
    'columns', array(select a.attname from pg_attribute a
      where a.attrelid = target and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' order by a.attnum),
    -- They follow from the others: an image may have been logged without them, or when their expression was another.
    'generated', array(select a.attname from pg_attribute a
      where a.attrelid = target and a.attnum > 0 and not a.attisdropped and a.attgenerated <> '' order by a.attnum),
    'is_logged', exists (select from pg_trigger t where t.tgrelid = target and t.tgname = 'svc_watch'
      and (t.tgenabled = 'A' or (t.tgenabled = 'O' and not is_replica))))
  from (select svc.same_key(target) as same_key) k
$$;
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
  generated text[];
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
    generated := array(select jsonb_array_elements_text(facts -> 'generated'));
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
      generated := array(select jsonb_array_elements_text(facts -> 'generated'));
      execute format($sql$select array_agg(c.current order by w.n) from unnest($1) with ordinality as w(value, n) left join lateral (
          %1$s, jsonb_populate_record(null::%2$s, coalesce(nullif(w.value -> 'there', 'null'), w.value -> 'gone')) given where %3$s for update of t
        ) c on true$sql$, facts ->> 'row', target, facts ->> 'same_key') into currents using chunk.items;
      conflicts := conflicts || (
        select coalesce(jsonb_agg(jsonb_build_object('table', i.item -> 'label', 'key', i.item -> 'key', 'changed_at', null, 'by', null,
          'message', i.problem) order by i.n), '[]')
        from (
          select w.item, w.n, case
            when not svc.is_image(w.current, nullif(w.item -> 'there', 'null') - generated) then 'a trigger made something else of the row'
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
