-- Some values are written to JSON in another form than jsonb_populate_record() reads: hstore as an object, and an array of JSON whose
-- elements are arrays as if it had more dimensions. Images keep that form, which is the one that callers know.

create function svc.is_hstore(type oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from pg_type t join pg_depend d on d.classid = 'pg_type'::regclass and d.objid = t.oid and d.deptype = 'e'
    join pg_extension e on d.refclassid = 'pg_extension'::regclass and e.oid = d.refobjid
    where t.oid = is_hstore.type and t.typname = 'hstore' and e.extname = 'hstore')
$$;

-- Whether jsonb_populate_record() makes of the JSON of a value of this type that value again.
create function svc.reads_back(type oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when reads_back.type < 16384 then reads_back.type not in ('json[]'::regtype, 'jsonb[]'::regtype) else not exists (
    with recursive parts(oid) as (
      select reads_back.type
      union
      select p.oid from parts join pg_type t on t.oid = parts.oid cross join lateral (
        select t.typbasetype as oid
        union all select t.typelem where t.typcategory = 'A'
        union all select a.atttypid from pg_attribute a where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
      ) p where p.oid <> 0
    )
    select from parts where parts.oid in ('json[]'::regtype, 'jsonb[]'::regtype) or svc.is_hstore(parts.oid)
  ) end
$$;

-- The text of an array of JSON with so many dimensions, as it was declared. Its elements may be arrays too.
create function svc.json_array(value jsonb, dimensions integer) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if dimensions > 1 and not exists (select from jsonb_array_elements(value) e where jsonb_typeof(e) <> 'array') then
    return (select '{' || coalesce(string_agg(svc.json_array(e.value, dimensions - 1), ',' order by e.n), '') || '}'
      from jsonb_array_elements(value) with ordinality as e(value, n));
  end if;
  return array(select nullif(e.value, 'null') from jsonb_array_elements(value) with ordinality as e(value, n) order by e.n)::text;
end $$;

-- A value as jsonb_populate_record() reads it: as text where it would not take the JSON.
create function svc.readable(value jsonb, type oid, dimensions integer) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  t pg_type;
begin
  if value is null or jsonb_typeof(value) not in ('object', 'array') or svc.reads_back(type) then
    return value;
  end if;
  select * into t from pg_type p where p.oid = type;
  if t.typtype = 'd' then
    return svc.readable(value, t.typbasetype, greatest(dimensions, t.typndims));
  elsif jsonb_typeof(value) = 'array' and type in ('json[]'::regtype, 'jsonb[]'::regtype) then
    return to_jsonb(svc.json_array(value, dimensions));
  elsif jsonb_typeof(value) = 'array' and t.typcategory = 'A' then
    return (select coalesce(jsonb_agg(svc.readable(e.value, case jsonb_typeof(e.value) when 'array' then type else t.typelem end, 0) order by e.n), '[]')
      from jsonb_array_elements(value) with ordinality as e(value, n));
  elsif jsonb_typeof(value) = 'object' and t.typtype = 'c' then
    return value || (select coalesce(jsonb_object_agg(a.attname, svc.readable(value -> a.attname, a.atttypid, a.attndims)), '{}') from pg_attribute a
      where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped and value ? a.attname and not svc.reads_back(a.atttypid));
  elsif jsonb_typeof(value) = 'object' and svc.is_hstore(type) then
    return (select to_jsonb(coalesce(string_agg(format('"%s"=>%s', regexp_replace(e.key, '(["\\])', '\\\1', 'g'),
      coalesce('"' || regexp_replace(e.value, '(["\\])', '\\\1', 'g') || '"', 'NULL')), ','), '')) from jsonb_each_text(value) e);
  end if;
  return value;
end $$;

create function svc.readable_image(image jsonb, target oid) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select image || (select coalesce(jsonb_object_agg(a.attname, svc.readable(image -> a.attname, a.atttypid, a.attndims)), '{}') from pg_attribute a
    where a.attrelid = target and a.attnum > 0 and not a.attisdropped and image ? a.attname and not svc.reads_back(a.atttypid))
$$;

-- The spatial columns of an image, which `image` is an expression of, from GeoJSON to the reference system of each. Null = none.
create function svc.spatial_members(target oid, image text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select string_agg(format('jsonb_build_object(%1$L, case jsonb_typeof(%2$s -> %1$L) when ''object'' then to_jsonb(%3$s::text) else %2$s -> %1$L end)',
      a.attname, image, case when s.srid in (0, 4326) then s.value else format('%I.st_transform(%s, %s)', n.nspname, s.value, s.srid) end), ' || ')
  from pg_attribute a
  join pg_type declared on declared.oid = a.atttypid
  join pg_type t on t.oid = coalesce(nullif(declared.typbasetype, 0), declared.oid)
  join pg_namespace n on n.oid = t.typnamespace
  join pg_depend d on d.classid = 'pg_type'::regclass and d.objid = t.oid and d.deptype = 'e'
  join pg_extension e on e.oid = d.refobjid and e.extname = 'postgis'
  cross join lateral (select coalesce(nullif(a.atttypmod, -1), declared.typtypmod) as modifier) m
  cross join lateral (select format('%1$I.st_setsrid(%1$I.st_geomfromgeojson(%2$s ->> %3$L), 4326)', n.nspname, image, a.attname) as value,
    case when m.modifier < 0 or t.typname = 'geography' then 0 else ((m.modifier & 268435200) - (m.modifier & 268435456)) >> 8 end as srid) s
  where a.attrelid = target and a.attnum > 0 and not a.attisdropped and t.typname in ('geometry', 'geography')
$$;

-- As 0250_undo_constraints.sql made it.
create or replace function svc.image_row(target regclass, image text) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select format('jsonb_populate_record(null::%s, %s%s)', target, case when exists (
    select from pg_attribute a where a.attrelid = target and a.attnum > 0 and not a.attisdropped and not svc.reads_back(a.atttypid)
  ) then format('svc.readable_image(%s, %s::oid)', image, target::oid) else image end, ' || ' || svc.spatial_members(target, image))
$$;
