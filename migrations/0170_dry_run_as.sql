-- A dry run of SQL on the login of callers: the row whose trigger refuses every commit, which callers cannot write themselves,
-- and the last id of the log before it.
create function svc.hold_dry_run(given_key text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.require_log_key(given_key);
  insert into svc.dry_run_guard values (1);
  return (select case when is_called then last_value else last_value - 1 end from svc.change_log_id_seq);
end $$;

-- As before, and of a caller those in schemas that it may use: PostgreSQL looks for no name in others.
create or replace function svc.check_deferred() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  names text := (
    select string_agg(distinct format('%I.%I', n.nspname, c.conname), ', ')
    from pg_constraint c join pg_namespace n on n.oid = c.connamespace
    where c.condeferrable and has_schema_privilege(n.oid, 'usage')
      and not (n.nspname = 'svc' and c.conname = 'svc_dry_run'));
begin
  if names is not null then
    execute 'set constraints ' || names || ' immediate';
  end if;
end $$;
