-- What collections need inside the database: a way to refuse from within a statement, and the trigger by which
-- writers outside the API (psql, functions, cascades) reach the change log too.

-- A batch must roll back when one of its rows is not there. The SQLSTATE is ours.
create function svc.require_rows(counted bigint, expected bigint) returns boolean
language plpgsql as $$
begin
  if counted <> expected then
    raise exception 'record not found' using errcode = 'SV404';
  end if;
  return true;
end $$;

-- INSERT … ON CONFLICT DO UPDATE does not return the row it replaced. Its WHERE is evaluated on that row, under the lock,
-- right before RETURNING is evaluated on the new one: the first notes the image, the second takes it away again. Null:
-- nothing was replaced, the row is new.
create function svc.note_replaced(image jsonb) returns boolean
language plpgsql as $$
begin
  perform pg_catalog.set_config('svc.replaced', coalesce(image, '{}')::text, true);
  return true;
end $$;

create function svc.take_replaced() returns jsonb
language plpgsql as $$
declare
  noted text := pg_catalog.current_setting('svc.replaced', true);
begin
  if noted <> '' then
    perform pg_catalog.set_config('svc.replaced', '', true);
    return noted::jsonb;
  end if;
  return null;
end $$;

-- Neither inserted nor seen: another transaction deleted the row between two statements, which another try finds out,
-- or the caller's policies hide it.
create function svc.require_seen(seen boolean) returns boolean
language plpgsql as $$
begin
  if not seen then
    raise exception 'conflicting row is not visible' using errcode = 'serialization_failure';
  end if;
  return true;
end $$;

-- Ends a statement whose values turn out to be bad ones.
create function svc.refuse(reason text) returns boolean
language plpgsql as $$
begin
  raise exception '%', reason;
end $$;

-- A geometry of another reference system in WGS 84. What cannot be transformed is null: writers that know nothing of the
-- log must not fail for it.
create function svc.transformed_geojson(geometry text, postgis text) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  shown jsonb;
begin
  execute format('select %1$I.st_asgeojson(%1$I.st_transform($1::%1$I.geometry, 4326), 12, 0)::jsonb', postgis)
    into shown using geometry;
  return shown;
exception when internal_error or data_exception then
  return null;
end $$;

-- What must be laid over to_jsonb() of a row to show its columns as the API does: GeoJSON in WGS 84 with all
-- digits, and vectors as arrays, which is how pgvector writes them. Null = nothing.
create function svc.converted_columns(relation oid, row_name text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select string_agg(case e.extname
      -- Cast, so that nobody's function for a domain of theirs is called instead.
      when 'postgis' then format('jsonb_build_object(%1$L, case when coalesce(%2$I.st_srid(%3$s.%1$I::%2$I.geometry), 0) in (0, 4326)
          then %2$I.st_asgeojson(%3$s.%1$I::%2$I.geometry, 15, 0)::jsonb
          else svc.transformed_geojson(%3$s.%1$I::%2$I.geometry::text, %2$L) end)', a.attname, n.nspname, row_name)
      else format('jsonb_build_object(%1$L, %2$s.%1$I::text::jsonb)', a.attname, row_name)
    end, ' || ')
  from pg_attribute a
  join pg_type declared on declared.oid = a.atttypid
  join pg_type t on t.oid = coalesce(nullif(declared.typbasetype, 0), declared.oid)
  join pg_namespace n on n.oid = t.typnamespace
  join pg_depend d on d.classid = 'pg_type'::regclass and d.objid = t.oid and d.deptype = 'e'
  join pg_extension e on e.oid = d.refobjid
  where a.attrelid = relation and a.attnum > 0 and not a.attisdropped
    and (e.extname, t.typname) in (('postgis', 'geometry'), ('postgis', 'geography'), ('vector', 'vector'), ('vector', 'halfvec'))
$$;

-- The table a watching trigger speaks for: of a partition, the topmost parent that is watched.
create function svc.watched_table(fired_on oid, out schema_name text, out table_name text, out key_columns text[],
  out conversions text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select n.nspname::text, c.relname::text,
    (select array_agg(a.attname::text order by k.ord)
     from pg_constraint p
     cross join unnest(p.conkey) with ordinality as k(attnum, ord)
     join pg_attribute a on a.attrelid = p.conrelid and a.attnum = k.attnum
     where p.conrelid = c.oid and p.contype = 'p'),
    case when exists (select from pg_extension where extname in ('postgis', 'vector')) then svc.converted_columns(fired_on, '($1)') end
  from (
    select fired_on as relid, 0::bigint as height
    union all
    select a.relid::oid, a.height
    from pg_partition_ancestors(fired_on) with ordinality as a(relid, height)
    where (select relispartition from pg_class where oid = fired_on)
  ) candidate
  join pg_class c on c.oid = candidate.relid
  join pg_namespace n on n.oid = c.relnamespace
  where exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'svc_watch')
  order by candidate.height desc
  limit 1
$$;

-- Runs as the owner of the log, because whoever writes the table need not know of the log. It reads nothing that the
-- writer chose but the row itself.
create function svc.log_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  watched record;
  convert text;
  new_image jsonb;
  old_image jsonb;
begin
  select * into watched from svc.watched_table(TG_RELID);
  convert := 'select to_jsonb($1) || ' || watched.conversions;
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
  insert into svc.changes (action, schema_name, table_name, pk, record, old_record, actor, bytes)
  values (
    case TG_OP when 'INSERT' then 'create' when 'UPDATE' then 'update' else 'delete' end,
    watched.schema_name,
    watched.table_name,
    (select coalesce(jsonb_object_agg(k, coalesce(new_image, old_image) -> k), '{}') from unnest(watched.key_columns) as k),
    new_image,
    old_image,
    svc.current_actor(),
    coalesce(pg_column_size(new_image), 0) + coalesce(pg_column_size(old_image), 0)
  );
  return null;
end $$;

-- How rows t of a table are matched with a row `given` of the same key: the operators are those of the key's own index,
-- whichever schema they are in. Null = the table has no key.
create function svc.same_key(target regclass) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select string_agg(format('t.%1$I operator(%2$I.%3$s) given.%1$I', a.attname, n.nspname, o.oprname), ' and ')
  from pg_index i
  cross join lateral unnest(i.indkey::int2[], i.indclass::oid[]) as k(attnum, opclass)
  join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
  join pg_opclass c on c.oid = k.opclass
  join pg_amop m on m.amopfamily = c.opcfamily and m.amopstrategy = 3
    and m.amoplefttype = c.opcintype and m.amoprighttype = c.opcintype
  join pg_operator o on o.oid = m.amopopr
  join pg_namespace n on n.oid = o.oprnamespace
  where i.indrelid = target and i.indisprimary
$$;

-- The row with this key as it is at this moment, with all columns in the form of the API: for the server, which keeps
-- whole images of what callers wrote who may not read every column. Null when there is no such row.
create function svc.whole_row(given_key text, target regclass, pk jsonb) returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  condition text := svc.same_key(target);
  image jsonb;
begin
  perform svc.require_log_key(given_key);
  if condition is not null then
    execute format('select to_jsonb(t)%1$s from %2$s t, jsonb_populate_record(null::%2$s, $1) given where %3$s',
      ' || ' || svc.converted_columns(target, '(t)'), target, condition) into image using pk;
  end if;
  return image;
end $$;

-- A writer that is still at work and yet visible is this transaction, or a savepoint of it. A row keeps 32 bits of its
-- writer's id; those above are the same as now.
create function svc.is_at_work(writer xid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select pg_xact_status(((pg_current_xact_id()::text::bigint >> 32 << 32) | writer::text::bigint)::text::xid8) = 'in progress'
$$;

-- May the caller see the row with this key at this moment, and did this very transaction write it? Runs with the
-- caller's rights and on its search path, so that its policies decide as they do elsewhere.
create function svc.wrote_visible_row(target regclass, pk jsonb) returns boolean
language plpgsql as $$
declare
  condition text := svc.same_key(target);
  is_mine boolean := false;
begin
  if condition is not null then
    execute pg_catalog.format(
      'select svc.is_at_work(t.xmin) from %1$s t, pg_catalog.jsonb_populate_record(null::%1$s, $1) given where %2$s',
      target, condition) into is_mine using pk;
  end if;
  return coalesce(is_mine, false);
exception
  when insufficient_privilege then
    return false;
end $$;

-- Both run with the rights of the caller, who must own the table.
create function svc.watch(target regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from pg_class where oid = target and relkind in ('r', 'p')) then
    raise exception '% is not a table', target;
  end if;
  if not exists (select from pg_trigger where tgrelid = target and tgname = 'svc_watch') then
    execute format('create trigger svc_watch after insert or update or delete on %s for each row execute function svc.log_change()', target);
  end if;
end $$;

create function svc.unwatch(target regclass) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  execute format('drop trigger if exists svc_watch on %s', target);
end $$;
