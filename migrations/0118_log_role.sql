-- The triggers of watched tables make JSON of rows, and a type of another role may have a cast to JSON that is its code. Where the
-- server is a superuser it makes svc_logger their owner (src/db/setup/admin-logins.ts), which may write the log and nothing else.
alter function svc.current_actor() security definer;

-- What svc_logger needs: the log, and functions of extensions wherever they are. Answers how many grants there were.
create function svc.grant_logger() returns integer
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  space name;
  granted integer := 0;
begin
  if not exists (select from pg_roles where rolname = 'svc_logger') then
    return 0;
  end if;
  if not has_table_privilege('svc_logger', 'svc.change_log', 'insert') then
    grant usage on schema svc to svc_logger;
    grant insert on svc.change_log to svc_logger;
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
