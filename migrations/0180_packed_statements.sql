-- What a statement does to many rows of a watched table is logged as packed entries, like the rows of an import: an entry for each
-- row costs a delete more than ten times what the delete does. Columns are kept as arrays of their own types, because making JSON
-- of every value is most of what is left; JSON is made when the log is read.

create type svc.pack_column as (
  name text, bools boolean[], ints bigint[], floats double precision[], numerics numeric[], texts text[], uuids uuid[], dates date[],
  timestamps timestamp[], moments timestamptz[], others jsonb[]
);
alter table svc.change_packs
  alter column rows drop not null,
  add column new_columns svc.pack_column[],
  add column old_columns svc.pack_column[],
  alter column new_columns set statistics 0, alter column old_columns set statistics 0,
  alter column new_columns set storage external, alter column old_columns set storage external, alter column key_hashes set storage external;

-- How the columns of a table are packed, and how large the image of a row may be: a constant and what depends on the row.
create function svc.packed_forms(target oid, alias text, out columns_form text, out size_form text, out framing integer)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select
    'array[' || string_agg(format('row(%L, %s)::svc.pack_column', f.name, (
      select string_agg(case when slot = f.slot then format('array_agg(%s)', f.value) else 'null' end, ', ' order by slot) from generate_series(1, 10) slot
    )), ', ' order by f.attnum) || ']',
    string_agg(f.size, ' + ' order by f.attnum),
    sum(octet_length(f.name) + 46)::integer
  from (
    select a.attnum, a.attname::text as name, k.slot,
      case when k.slot = 10 then format('to_jsonb(%s.%I)', alias, a.attname) else format('%s.%I::%s', alias, a.attname, k.kept_as) end as value,
      case
        when k.slot = 5 then format('coalesce(octet_length(%s.%I::text), 0)', alias, a.attname)
        -- Of what is compressed the size is not known without reading it.
        when t.typlen = -1 then format('coalesce(case when pg_column_compression(%1$s.%2$I) is null then 3 * pg_column_size(%1$s.%2$I) else 1048576 end, 0)', alias, a.attname)
      end as size
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    cross join lateral (
      select s.slot, s.kept_as from (values (16, 1, 'boolean'), (20, 2, 'bigint'), (21, 2, 'bigint'), (23, 2, 'bigint'), (701, 3, 'double precision'),
        (1700, 4, 'numeric'), (25, 5, 'text'), (1043, 5, 'text'), (2950, 6, 'uuid'), (1082, 7, 'date'), (1114, 8, 'timestamp'), (1184, 9, 'timestamptz')
      ) as s(type, slot, kept_as) where s.type = t.oid
      union all select 5, 'text' where t.typtype = 'e'
      union all select 10, '' order by 1 limit 1
    ) k
    where a.attrelid = target and a.attnum > 0 and not a.attisdropped
  ) f
$$;

-- The images in packed columns, the first has n = 0. Made for the columns that there are: rows of arrays side by side take a tenth
-- of the time that values take which are gathered by their number.
create function svc.unpack_columns(columns svc.pack_column[]) returns table (n integer, record jsonb)
language plpgsql stable strict set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  form text := (
    select format('select (u.n - 1)::integer, (select to_jsonb(r.*) from (select %s) r) from unnest(%s) with ordinality as u(%s, n)',
      string_agg(format('u.c%s as %I', c.i, c.name), ', ' order by c.i),
      string_agg(format('$1[%s].%s', c.i, case when c.bools is not null then 'bools' when c.ints is not null then 'ints'
        when c.floats is not null then 'floats' when c.numerics is not null then 'numerics' when c.texts is not null then 'texts'
        when c.uuids is not null then 'uuids' when c.dates is not null then 'dates' when c.timestamps is not null then 'timestamps'
        when c.moments is not null then 'moments' else 'others' end), ', ' order by c.i),
      string_agg('c' || c.i, ', ' order by c.i))
    from unnest(columns) with ordinality as c(name, bools, ints, floats, numerics, texts, uuids, dates, timestamps, moments, others, i));
begin
  return query execute form using columns;
end $$;

-- The changes of a pack: of an import its rows, of a statement the images before and after.
create function svc.unpack_entry(rows json, new_columns svc.pack_column[], old_columns svc.pack_column[])
returns table (n integer, record jsonb, old_record jsonb)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select u.n, u.record, null::jsonb from svc.unpack_changes(rows) u
  union all
  select coalesce(a.n, b.n), a.record, b.record
  from svc.unpack_columns(new_columns) a full join svc.unpack_columns(old_columns) b on b.n = a.n
$$;

create or replace view svc.changes as
  select c.id + coalesce(u.n, 0) as id, c.xid, c.at,
    case c.action when 'c' then 'create' when 'u' then 'update' when 'd' then 'delete' else 'truncate' end as action,
    s.schema_name, s.table_name,
    (select coalesce(jsonb_object_agg(k.name, k.value), '{}') from (
       select name, coalesce(u.record::json, u.old_record::json, c.record, c.old_record) -> name as value
       from unnest(s.key_columns) as name offset 0
     ) k where k.value is not null) as pk,
    coalesce(u.record, c.record::jsonb) as record, coalesce(u.old_record, c.old_record::jsonb) as old_record, c.actor::jsonb as actor,
    c.request_id, c.table_oid, c.shape, coalesce(c.key, svc.key_of(coalesce(u.record, u.old_record), s.key_columns)) as key, c.id as entry
  from svc.change_log c
  left join lateral (select * from svc.change_shapes s where s.id = c.shape limit 1) s on true
  left join lateral (
    select u.* from svc.change_packs p cross join lateral svc.unpack_entry(p.rows, p.new_columns, p.old_columns) u
    where c.events > 1 and p.id = c.id
  ) u on true;

-- By what a pack is found: hashes of its keys, or, of whole numbers, which mostly lie close together, of blocks of 128 keys. An index
-- entry for each key of a pack costs more than the pack.
create function svc.block_hashes(blocks bigint[]) returns bigint[]
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select array(select hashtextextended('#' || b, 0) from unnest(blocks) as b)
$$;
create function svc.key_lookups(wanted text) returns bigint[]
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select array[hashtextextended(wanted, 0)] || case when wanted ~ '^-?[0-9]{1,18}$' then svc.block_hashes(array[wanted::bigint >> 7]) end
$$;
create or replace function svc.changes_of(target oid, wanted text) returns setof svc.changes
language sql stable set search_path = pg_catalog, pg_temp as $$
  select v.* from (
    select c.id from svc.change_log c where c.table_oid = target and c.key = wanted
    union all
    select p.id from svc.change_packs p where p.key_hashes && svc.key_lookups(wanted)
  ) found join svc.changes v on v.entry = found.id
  where v.table_oid = target and v.key = wanted
$$;

-- The statement that packs `made` rows of a trigger's transition tables; null when the widest of them is too large for it. Entries
-- have at most 1 MiB of images and 1,001 rows.
create function svc.pack_form(target oid, op text, made bigint, widest bigint, out pack_form text, out framing integer)
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
    when 'INSERT' then '(select row_number() over () as %1$s, * from new_rows) svc_n'
    when 'DELETE' then '(select row_number() over () as %1$s, * from old_rows) svc_o'
    else '(select row_number() over () as %1$s, * from new_rows) svc_n join (select row_number() over () as %1$s, * from old_rows) svc_o using (%1$s)'
  end, place);
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

-- As 0099_watch_statements.sql made it, and packed from 500 rows on. work_mem: entries are put together in memory.
create or replace function svc.log_statement() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set intervalstyle = 'postgres' set work_mem = '16MB' as $$
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
  -- Values of these types are made JSON in another form than their own, one by one.
  if made = 500 and not exists (select from pg_extension e where e.extname in ('postgis', 'vector') and svc.converted_columns(TG_RELID, 't') is not null) then
    execute format('select count(*), max(%s) from %s svc_n',
      coalesce((svc.packed_forms(TG_RELID, 'svc_n')).size_form, '0'), case TG_OP when 'DELETE' then 'old_rows' else 'new_rows' end) into made, widest;
    if TG_OP = 'UPDATE' then
      execute format('select $1 + max(%s) from old_rows svc_n', coalesce((svc.packed_forms(TG_RELID, 'svc_n')).size_form, '0')) into widest using widest;
    end if;
    select * into forms from svc.pack_form(TG_RELID, TG_OP, made, widest);
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

-- As 0118_log_role.sql made it, with packs.
create or replace function svc.grant_logger() returns integer
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  space name;
  granted integer := 0;
begin
  if not exists (select from pg_roles where rolname = 'svc_logger') then
    return 0;
  end if;
  if not has_table_privilege('svc_logger', 'svc.change_log', 'insert') or not has_table_privilege('svc_logger', 'svc.change_packs', 'insert') then
    grant usage on schema svc to svc_logger;
    grant insert, select (id) on svc.change_log to svc_logger;
    grant insert on svc.change_packs to svc_logger;
    grant select, insert on svc.change_shapes to svc_logger;
    granted := 1;
  end if;
  for space in
    select distinct n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    where not has_schema_privilege('svc_logger', n.oid, 'usage')
  loop
    execute format('grant usage on schema %I to svc_logger', space);
    granted := granted + 1;
  end loop;
  return granted;
end $$;
-- Before the first write that is packed.
do $$
begin
  perform svc.grant_logger();
end $$;

-- Makes an entry of each change of a packed one. Their ids are those that they have already.
create function svc.split_entry(packed bigint) returns void
language sql set search_path = pg_catalog, pg_temp as $$
  insert into svc.change_log (xid, id, at, shape, table_oid, action, key, record, old_record, actor, request_id)
  select c.xid, v.id, c.at, c.shape, c.table_oid, c.action, v.key, v.record::json, v.old_record::json, c.actor, c.request_id
  from svc.change_log c join svc.changes v on v.entry = c.id where c.id = packed and v.id > c.id;
  update svc.change_log c set events = 1, key = v.key, record = v.record::json, old_record = v.old_record::json
  from (select v.key, v.record, v.old_record from svc.changes v where v.entry = packed and v.id = packed) v where c.id = packed;
  delete from svc.change_packs p where p.id = packed;
$$;

-- As 0096_history.sql made it; images in packs are found by their keys, and such packs are split.
create or replace function svc.forget_images(settled bigint, streams interval) returns integer
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  emptied integer;
  passed bigint := least(settled, coalesce((select min(id) from svc.change_readers), settled));
  due xid8[] := array(
    select f.xid from svc.forgotten f
    where f.at < now() - streams and not exists (select from svc.change_log c where c.xid = f.xid and c.id > passed));
begin
  if due = '{}' then
    return 0;
  end if;
  perform svc.split_entry(c.id) from svc.change_log c where c.xid = any (due) and c.action = 'd' and c.events > 1;
  perform svc.split_entry(c.id) from (
    select distinct p.id from svc.change_log d join svc.change_packs p on p.key_hashes && svc.key_lookups(d.key)
    where d.xid = any (due) and d.action = 'd' and d.key is not null
  ) found join svc.change_log c on c.id = found.id
  where c.id <= passed and exists (select from svc.change_log d where d.xid = any (due) and d.action = 'd' and d.table_oid = c.table_oid);
  with rows as (
    select distinct c.table_oid, c.key from svc.change_log c where c.xid = any (due) and c.action = 'd' and c.key is not null
  ), emptied_images as (
    update svc.change_log c set record = case when c.record is not null then '{}'::json end,
      old_record = case when c.old_record is not null then '{}'::json end
    from rows r where c.table_oid = r.table_oid and c.key = r.key and c.id <= passed returning 1
  )
  select count(*) into emptied from emptied_images;
  delete from svc.forgotten f where f.xid = any (due);
  return emptied;
end $$;
