-- Dry runs: a write is made, its changes are read out of the log, and all of it is rolled back. What a caller may see of an
-- image is decided by the policies of now, as for the history of a row.

-- A table as answers name it.
create function svc.table_label(schema_name text, table_name text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case schema_name when 'public' then table_name else schema_name || '.' || table_name end
$$;

-- The key of an image as the API writes it: a value, or an array of several.
create function svc.key_json(image jsonb, key_columns text[]) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case
    when key_columns = '{}' or not image ?& key_columns then null
    when cardinality(key_columns) = 1 then image -> key_columns[1]
    else (select jsonb_agg(image -> k order by n) from unnest(key_columns) with ordinality as keys(k, n))
  end
$$;

-- What a change did, column by column: {"a": {"old": 1, "new": 2}}. An image that is not given of an update is hidden, and
-- then the whole other one is told. `names` null: all columns.
create function svc.image_changes(action text, old jsonb, new jsonb, names text[]) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_object_agg(c.name, case
      when action <> 'update' or (old is not null and new is not null) then jsonb_build_object('old', old -> c.name, 'new', new -> c.name)
      when new is not null then jsonb_build_object('new', new -> c.name)
      else jsonb_build_object('old', old -> c.name)
    end), '{}')
  from (select jsonb_object_keys(coalesce(old, '{}') || coalesce(new, '{}')) as name) c
  where (names is null or c.name = any (names))
    and (action <> 'update' or old is null or new is null or old -> c.name is distinct from new -> c.name)
$$;

-- Whether the SELECT policies of a table read the table itself, also by way of other tables' policies, views and functions:
-- then they judge an image by rows that are not of its time. A function counts if its body cannot be read. Of a body that is
-- text, each word may be the name of a table or a function. Those of svc and of the system do not count.
create function svc.reads_itself(target oid) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  trees text[] := array(
    select p.polqual::text from pg_policy p where p.polrelid = target and p.polcmd in ('r', '*') and p.polqual is not null);
  root oid := coalesce(pg_partition_root(target), target);
  words text[] := '{}';
  relations oid[] := '{}';
  functions oid[] := '{}';
  next_relations oid[];
  next_functions oid[];
begin
  loop
    next_relations := array(
      select r.oid from (
        select (m.parts)[1]::oid as oid from unnest(trees) t cross join lateral regexp_matches(t, ':relid (\d+)', 'g') as m(parts)
        union
        select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where lower(c.relname) = any (words) and c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname not in ('pg_catalog', 'information_schema', 'svc')
      ) r where r.oid <> 0 and r.oid <> all (relations));
    next_functions := array(
      select p.oid from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
      where n.nspname not in ('pg_catalog', 'information_schema', 'svc') and l.lanname not in ('c', 'internal') and p.oid <> all (functions)
        and (p.oid in (
          select (m.parts)[1]::oid from unnest(trees) t
          cross join lateral regexp_matches(t, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)', 'g') as m(parts)
        ) or lower(p.proname) = any (words)));
    exit when next_relations = '{}' and next_functions = '{}';
    if exists (select from unnest(next_relations) as r(oid) where coalesce(pg_partition_root(r.oid), r.oid) = root)
      or exists (select from pg_proc p join pg_language l on l.oid = p.prolang
                 where p.oid = any (next_functions) and (l.lanname <> 'sql' or p.prosrc like '%"%')) then
      return true;
    end if;
    relations := relations || next_relations;
    functions := functions || next_functions;
    trees := array(
      select p.polqual::text from pg_policy p join pg_class c on c.oid = p.polrelid
      where p.polrelid = any (next_relations) and c.relrowsecurity and p.polcmd in ('r', '*') and p.polqual is not null
      union all select w.ev_action::text from pg_rewrite w where w.ev_class = any (next_relations)
      union all select p.prosqlbody::text from pg_proc p where p.oid = any (next_functions) and p.prosqlbody is not null);
    words := array(
      select distinct lower(w) from pg_proc p cross join lateral regexp_split_to_table(p.prosrc, '[^[:alnum:]_$]+') as w
      where p.oid = any (next_functions) and p.prosqlbody is null and w <> '');
  end loop;
  return false;
end $$;

-- Row security of a table for a role as it is now. `asked`: the columns that the policies read. The search path makes
-- pg_get_expr qualify every name outside pg_catalog.
create function svc.row_security(target oid, role_name text) returns json
language sql stable set search_path = pg_catalog, pg_temp as $$
  select json_build_object('rls', c.relrowsecurity, 'isClosed', c.relrowsecurity and svc.reads_itself(c.oid),
    'policies', (
      select coalesce(json_agg(json_build_object('permissive', p.polpermissive, 'expression', pg_get_expr(p.polqual, p.polrelid))), '[]')
      from pg_policy p, pg_roles r
      where p.polrelid = c.oid and p.polcmd in ('r', '*') and p.polqual is not null and r.rolname = role_name
        and (p.polroles @> '{0}' or exists (select from unnest(p.polroles) as o(oid) where pg_has_role(r.oid, o.oid, 'USAGE')))),
    'asked', (
      select coalesce(json_agg(distinct a.attname), '[]')
      from pg_policy p
      join pg_depend d on d.classid = 'pg_policy'::regclass and d.objid = p.oid
        and d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        and (a.attnum = d.refobjsubid or (d.refobjsubid = 0 and d.deptype = 'n'))
      where p.polrelid = c.oid))
  from pg_class c where c.oid = target
$$;

-- The last id that was taken before a dry run.
create function svc.begin_dry_run(given_key text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  return (select last_value from svc.change_log_id_seq);
end $$;

-- What this transaction has logged since, up to a number of changes and of bytes.
create function svc.dry_run_changes(given_key text, since bigint, most integer, bytes bigint)
returns table (id bigint, table_oid oid, schema_name text, table_name text, action text, key jsonb, old_record jsonb, record jsonb)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  return query select r.id, r.table_oid, r.schema_name, r.table_name, r.action, r.key, r.old_record, r.record from (
    select v.id, v.table_oid, v.schema_name, v.table_name, v.action,
      svc.key_json(coalesce(v.record, v.old_record), s.key_columns) as key, v.old_record, v.record,
      sum(coalesce(octet_length(v.record::text), 0) + coalesce(octet_length(v.old_record::text), 0)) over (order by v.id) as size
    from svc.change_log c join svc.changes v on v.entry = c.id
    cross join lateral (select s.key_columns from svc.change_shapes s where s.id = v.shape limit 1) s
    where c.id > since and c.xid = pg_current_xact_id()
    order by v.id limit most
  ) r where r.size <= bytes order by r.id;
end $$;

-- A transaction that holds a row of this table cannot be committed. ALWAYS: whatever session_replication_role says.
create table svc.dry_run_guard (id integer not null);
create function svc.refuse_commit() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'a dry run cannot be committed' using errcode = 'invalid_transaction_termination';
end $$;
create constraint trigger svc_dry_run after insert on svc.dry_run_guard
  deferrable initially deferred for each row execute function svc.refuse_commit();
alter table svc.dry_run_guard enable always trigger svc_dry_run;

-- Checks now what would be checked at the commit, except for the guard itself.
create function svc.check_deferred() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  names text := (
    select string_agg(distinct format('%I.%I', n.nspname, c.conname), ', ')
    from pg_constraint c join pg_namespace n on n.oid = c.connamespace
    where c.condeferrable and c.conrelid <> 'svc.dry_run_guard'::regclass
      and not (n.nspname = 'svc' and c.conname = 'svc_dry_run'));
begin
  if names is not null then
    execute 'set constraints ' || names || ' immediate';
  end if;
end $$;

-- Functions whose work a rollback does not undo: of languages that may do anything, of extensions that speak to others, and
-- those of a library that belongs to no extension.
create view svc.outside_functions as
  select p.oid, p.proname as name
  from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
  left join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass and d.objid = p.oid
    and d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass and d.deptype = 'e'
  left join pg_catalog.pg_extension e on e.oid = d.refobjid
  where (not l.lanpltrusted and l.lanname not in ('internal', 'c'))
    or (l.lanname = 'c' and p.provolatile = 'v' and e.oid is null and p.oid >= 16384)
    or e.extname in ('dblink', 'http', 'pg_net', 'pg_background', 'postgres_fdw', 'plproxy', 'adminpack', 'pg_cron', 'aws_s3', 'aws_lambda')
    or p.proname in ('lo_export', 'lo_import');
