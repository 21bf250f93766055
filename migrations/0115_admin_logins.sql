-- Logins of administrators (src/db/setup/admin-logins.ts): their data routes and the SQL of those who only read never run as the
-- server's own role.

-- None of them is an operator of the database, whatever a trigger does with the settings of its session.
create or replace function svc.current_actor() returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  said text := current_setting('svc.actor', true);
  actor text := substr(said, 66);
begin
  if said <> '' then
    if left(said, 64) = (select encode(sha256(convert_to(k.key || '.' || actor || '.' || k.key, 'UTF8')), 'hex') from svc.log_key k) then
      return actor::jsonb;
    end if;
    return '{"kind": "unknown"}';
  end if;
  return case when current_setting('role') in ('svc_anon', 'svc_authenticated')
      or session_user ~ '^svc_(authenticator|admin_writer|admin_reader|operator_sql|viewer_sql|undo)(_[0-9]+)?$'
    then '{"kind": "unknown"}' else '{"kind": "system"}' end;
end $$;

-- Grants what is missing on the tables, sequences and functions of these schemas, whoever made them: all rows to `writer`,
-- reading to `reader` and `readers`. Answers how many grants there were. What the server may not grant is left out.
create function svc.grant_logins(schemas text[], writer text, reader text, readers text[]) returns integer
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  missing record;
  granted integer := 0;
begin
  for missing in
    with logins as (
      select l.name from unnest(array[writer, reader] || readers) as l(name) where l.name is not null
    ), spaces as (
      select n.oid, n.nspname from pg_namespace n where n.nspname = any (schemas) and n.nspname <> 'svc'
    )
    select format('usage on schema %I', s.nspname) as what, l.name as login from spaces s, logins l
    where not has_schema_privilege(l.name, s.oid, 'usage')
    union all
    select format('%s on table %I.%I', p.privilege, s.nspname, c.relname), l.name
    from spaces s join pg_class c on c.relnamespace = s.oid and c.relkind in ('r', 'p', 'v', 'm', 'f'), logins l,
      unnest(array['select', 'insert', 'update', 'delete']) as p(privilege)
    where (p.privilege = 'select' or l.name = writer) and not has_table_privilege(l.name, c.oid, p.privilege)
    union all
    select format('%s on sequence %I.%I', p.privilege, s.nspname, c.relname), l.name
    from spaces s join pg_class c on c.relnamespace = s.oid and c.relkind = 'S', logins l, unnest(array['select', 'usage']) as p(privilege)
    where (p.privilege = 'select' or l.name = writer) and not has_sequence_privilege(l.name, c.oid, p.privilege)
    union all
    select format('execute on routine %s', f.oid::regprocedure), writer from spaces s join pg_proc f on f.pronamespace = s.oid
    where writer is not null and not has_function_privilege(writer, f.oid, 'execute')
  loop
    begin
      execute format('grant %s to %I', missing.what, missing.login);
      granted := granted + 1;
    exception when insufficient_privilege or undefined_table or undefined_function or undefined_object or invalid_schema_name
      or internal_error then
      -- Gone meanwhile, another's, or granted by another process at the same moment.
    end;
  end loop;
  return granted;
end $$;

-- The images of one table's changes, from the first to the last of these ids, for the login that makes rows of them: that runs
-- code of types and domains.
create function svc.images_between(given_key text, first bigint, last bigint, target oid)
returns table (id bigint, shape bigint, action text, pk jsonb, record jsonb, old_record jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  return query
    select v.id, v.shape, v.action, v.pk, v.record, v.old_record from svc.change_log c join svc.changes v on v.entry = c.id
    where c.id > first - 1 - 1024 and c.id + c.events > first and c.id <= last and c.table_oid = target;
end $$;
