-- As before, but a row that is named by a foreign key may be a stranger's, however its table ties rows to users.
create or replace function svc.written_by_others(target oid) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  relation pg_class;
  tie text := svc.tying_column(target);
begin
  select * into relation from pg_class where oid = target;
  if relation.relkind not in ('r', 'p') or not relation.relrowsecurity or tie is null
    or not has_any_column_privilege('svc_authenticated', target, 'insert, update')
    or not exists (select from pg_policy p where p.polrelid = target and p.polpermissive and p.polcmd in ('a', 'w', '*')) then
    return true;
  end if;
  -- Code of other rights that writes to it, by itself or by what it calls.
  if exists (
    with recursive code as materialized (select * from svc.readable_code()),
    writers(oid) as (
      select c.oid from code c where c.is_dynamic
        or c.body ~* ('\m(into|update|only|copy)\s+(("[^"]+"|\w+)\s*\.\s*)?"?' || regexp_replace(relation.relname, '\W', '.', 'g') || '"?\M')
      union
      -- Without the offset the planner compares every function with every other one.
      select f.oid from (select g.name from writers w join code g on g.oid = w.oid offset 0) g join code f on f.body ~* ('\m' || g.name || '"?\s*\(')
    )
    select from writers w join code c on c.oid = w.oid where c.is_definer and c.is_open
  ) then
    return true;
  end if;
  -- Views and rules write with the rights of their owner, unless a view has those of its caller.
  if exists (
    with recursive above(oid) as (
      select target union select w.ev_class from above a
        join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = a.oid and d.classid = 'pg_rewrite'::regclass
        join pg_rewrite w on w.oid = d.objid where w.ev_class <> a.oid
    )
    select from above a join pg_class c on c.oid = a.oid where c.oid <> target and (
      exists (select from pg_rewrite w where w.ev_class = c.oid and w.ev_type <> '1')
      or c.relkind = 'v' and svc.callers_write(c.oid) and pg_relation_is_updatable(c.oid, false) & 12 <> 0 and exists (
        select from above b join pg_class v on v.oid = b.oid where v.relkind = 'v' and not exists (
          select from pg_options_to_table(v.reloptions) o where o.option_name = 'security_invoker' and o.option_value::boolean)))
  ) then
    return true;
  end if;
  -- Partitions and heirs have policies of their own.
  if exists (
    with recursive below(oid) as (
      select i.inhrelid from pg_inherits i where i.inhparent = target
      union select i.inhrelid from below b join pg_inherits i on i.inhparent = b.oid
    )
    select from below b join pg_class c on c.oid = b.oid
    where svc.callers_write(c.oid) and (not c.relrowsecurity or svc.tying_column(c.oid) is distinct from tie)
  ) then
    return true;
  end if;
  -- A key that others change changes what refers to it, and what refers to that.
  return exists (
    with recursive named(relation, attnum) as (
      select f.confrelid, k.foreign_key from pg_constraint f cross join lateral unnest(f.conkey, f.confkey) as k(own, foreign_key)
      join pg_attribute a on a.attrelid = target and a.attnum = k.own join pg_type t on t.oid = a.atttypid
      where f.conrelid = target and f.contype = 'f' and f.confupdtype = 'c'
        and (t.typcategory = 'S' or t.typtype in ('d', 'c') or t.typname in ('json', 'jsonb'))
      union
      select f.confrelid, k.foreign_key from named n join pg_constraint f on f.conrelid = n.relation and f.contype = 'f' and f.confupdtype = 'c'
      cross join lateral unnest(f.conkey, f.confkey) as k(own, foreign_key) where k.own = n.attnum
    )
    select from named n where has_column_privilege('svc_authenticated', n.relation, n.attnum, 'update') or has_column_privilege('svc_anon', n.relation, n.attnum, 'update'));
end $$;
