-- As 0195_text_of_others.sql made it, but quick among hundreds of functions.
create or replace function svc.runs_definer(functions oid[], tables oid[]) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where p.prosecdef and n.nspname not in ('svc', 'pg_catalog', 'information_schema')) then
    return false;
  end if;
  return (
    with recursive code as materialized (select * from svc.readable_code()),
    reached(oid) as (
      select c.oid from code c where c.oid = any (functions) or c.oid in (
        select t.tgfoid from pg_trigger t where t.tgrelid = any (tables) and not t.tgisinternal and t.tgenabled <> 'D')
      union
      -- Without the offset the planner compares every function with every other one.
      select g.oid from (select f.body from reached r join code f on f.oid = r.oid offset 0) f join code g on f.body ~* ('\m' || g.name || '"?\s*\(')
    )
    select coalesce(bool_or(c.is_definer or c.is_dynamic), false) from reached r join code c on c.oid = r.oid);
end $$;
