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

-- What must be laid over to_jsonb() of a row, $1, to show its columns as the API does: GeoJSON with all digits and
-- without a reference system, and vectors as arrays, which is how pgvector writes them. Null = nothing.
create function svc.converted_columns(relation oid) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select string_agg(case e.extname
      -- Cast, so that nobody's function for a domain of theirs is called instead.
      when 'postgis' then format('jsonb_build_object(%1$L, %2$I.st_asgeojson(($1).%1$I::%2$I.%3$I, 15, 0)::jsonb)', a.attname, n.nspname, t.typname)
      else format('jsonb_build_object(%1$L, ($1).%1$I::text::jsonb)', a.attname)
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
    case when exists (select from pg_extension where extname in ('postgis', 'vector')) then svc.converted_columns(fired_on) end
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
-- writer chose but the row itself and who the server said is writing.
create function svc.log_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  watched record;
  convert text;
  new_image jsonb;
  old_image jsonb;
  actor jsonb := nullif(current_setting('svc.actor', true), '')::jsonb;
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
  if actor is null then
    actor := case
      when nullif(current_setting('svc.user_id', true), '') is not null
        then jsonb_build_object('kind', 'user', 'id', current_setting('svc.user_id', true))
      when current_setting('role', true) = 'svc_anon' then '{"kind": "anonymous"}'
      else '{"kind": "system"}'
    end;
  end if;
  insert into svc.changes (action, schema_name, table_name, pk, record, old_record, actor)
  values (
    case TG_OP when 'INSERT' then 'create' when 'UPDATE' then 'update' else 'delete' end,
    watched.schema_name,
    watched.table_name,
    (select coalesce(jsonb_object_agg(k, coalesce(new_image, old_image) -> k), '{}') from unnest(watched.key_columns) as k),
    new_image,
    old_image,
    actor
  );
  return null;
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
