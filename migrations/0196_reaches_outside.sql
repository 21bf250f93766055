-- Whether functions, triggers of tables, or what they call may reach outside of the database: by an extension that connects or runs
-- programs, or in a language that may do anything. What is sent there no rollback takes back.
create function svc.reaches_outside(functions oid[], tables oid[]) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return exists (
    with recursive doors as materialized (
      select p.oid, regexp_replace(p.proname, '\W', '.', 'g') as name from pg_proc p join pg_language l on l.oid = p.prolang
      left join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
      left join pg_extension e on e.oid = d.refobjid
      where e.extname in ('dblink', 'http', 'pg_net', 'pg_background', 'postgres_fdw', 'plproxy', 'pg_cron', 'aws_s3', 'aws_lambda', 'pg_curl', 'adminpack')
        or not l.lanpltrusted and l.lanname not in ('internal', 'c', 'sql', 'plpgsql')
    ), code as materialized (select * from svc.readable_code() where exists (select from doors)),
    reached(oid) as (
      select unnest(functions)
      union select t.tgfoid from pg_trigger t where t.tgrelid = any (tables) and not t.tgisinternal and t.tgenabled <> 'D'
      union select g.oid from reached r join code f on f.oid = r.oid join code g on f.body ~* ('\m' || g.name || '"?\s*\(')
    )
    select from reached r left join code f on f.oid = r.oid
    where r.oid in (select d.oid from doors d) or f.is_dynamic or exists (select from doors d where f.body ~* ('\m' || d.name || '"?\s*\(')));
end $$;
