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
