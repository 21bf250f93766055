-- Agents: what the database generates is told from what a write copies by a second run of the same statements on one snapshot.

-- What the defaults of these tables' columns are at this moment, where nothing else decides it: other functions may read data that
-- changes meanwhile, and sequences and random values are new each time.
create function svc.present_defaults(targets oid[]) returns json
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  known jsonb := '{}';
  one record;
  present jsonb;
begin
  for one in
    select d.adrelid::text as relation, a.attname as name, e.expression, format_type(a.atttypid, a.atttypmod) as type
    from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
    cross join lateral (select pg_get_expr(d.adbin, d.adrelid) as expression) e
    where d.adrelid = any (targets) and a.attgenerated = '' and not a.attisdropped
      and e.expression ~* '\m(now|transaction_timestamp|current_timestamp|current_date|current_time|localtimestamp|localtime)\M'
      and e.expression !~* '\m(nextval|gen_random_uuid|uuidv[47]|random\w*)\M'
      and not exists (select from pg_depend p where p.classid = 'pg_attrdef'::regclass and p.objid = d.oid and p.refclassid = 'pg_proc'::regclass)
  loop
    begin
      execute format('select to_jsonb((%s)::%s)', one.expression, one.type) into present;
      known := jsonb_set(known, array[one.relation], coalesce(known -> one.relation, '{}') || jsonb_build_object(one.name, present));
    -- The caller may not evaluate it, or the type is not to be had: then it is a value like others.
    exception when others then
      null;
    end;
  end loop;
  return known::json;
end $$;

-- What an agent has written counts for its other transactions: one with an older snapshot begins again.
create function svc.count_agent_write() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  update svc.agents a set generation = a.generation where a.id = new.agent;
  return null;
end $$;
create trigger count_write after insert on svc.agent_writes for each row execute function svc.count_agent_write();

-- The extensions by which functions, triggers of tables, or what they call may reach outside of the database; an empty name: a language
-- that may do anything, or statements that cannot be read.
create function svc.ways_outside(functions oid[], tables oid[]) returns setof name
language sql stable set search_path = pg_catalog, pg_temp as $$
  with recursive doors as materialized (
    select p.oid, regexp_replace(p.proname, '\W', '.', 'g') as name, coalesce(e.extname, '') as extension
    from pg_proc p join pg_language l on l.oid = p.prolang
    left join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
    left join pg_extension e on e.oid = d.refobjid
    where e.extname in ('dblink', 'http', 'pg_net', 'pg_background', 'postgres_fdw', 'plproxy', 'pg_cron', 'aws_s3', 'aws_lambda', 'pg_curl', 'adminpack')
      or not l.lanpltrusted and l.lanname not in ('internal', 'c', 'sql', 'plpgsql')
  ), code as materialized (select * from svc.readable_code() where exists (select from doors)),
  -- Without the offset the planner compares every function with every other one.
  reached(oid) as (
    select unnest(functions)
    union select t.tgfoid from pg_trigger t where t.tgrelid = any (tables) and not t.tgisinternal and t.tgenabled <> 'D'
    union select g.oid from (select f.body from reached r join code f on f.oid = r.oid offset 0) f join code g on f.body ~* ('\m' || g.name || '"?\s*\(')
  )
  select d.extension from reached r join doors d on d.oid = r.oid
  union select d.extension from reached r join code f on f.oid = r.oid join doors d on f.body ~* ('\m' || d.name || '"?\s*\(')
  union select '' from reached r join code f on f.oid = r.oid where f.is_dynamic
$$;

create or replace function svc.reaches_outside(functions oid[], tables oid[]) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from svc.ways_outside(functions, tables))
$$;

-- Whether a second run would be one more effect outside. What these extensions send, they send after the commit.
create function svc.acts_at_once(functions oid[], tables oid[]) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from svc.ways_outside(functions, tables) w(extension) where w.extension not in ('pg_net', 'pg_cron'))
$$;
