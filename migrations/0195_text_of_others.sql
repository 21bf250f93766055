-- Agents: more ways by which others write what a user reads, code of other rights behind other code, and accounts that end meanwhile.

-- Functions of the operator, as text: SQL and PL/pgSQL can be read, other languages and dynamic statements can be anything.
create function svc.readable_code() returns table (oid oid, name text, body text, is_definer boolean, is_dynamic boolean, is_open boolean)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select p.oid, regexp_replace(p.proname, '\W', '.', 'g'), b.body, p.prosecdef,
    l.lanname not in ('sql', 'plpgsql', 'c', 'internal') or l.lanname in ('c', 'internal') and p.prosecdef or b.body ~* '\mexecute\M',
    p.prorettype = 'trigger'::regtype or has_function_privilege('svc_authenticated', p.oid, 'execute') or has_function_privilege('svc_anon', p.oid, 'execute')
  from pg_proc p join pg_language l on l.oid = p.prolang join pg_namespace n on n.oid = p.pronamespace
  cross join lateral (select coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) as body) b
  where p.prokind in ('f', 'p') and n.nspname not in ('svc', 'pg_catalog', 'information_schema') and (p.prosecdef or not exists (
    select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'))
$$;

-- Whether code of other rights may run when these functions are called or the triggers of these tables fire, however deep.
create function svc.runs_definer(functions oid[], tables oid[]) returns boolean
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
      select g.oid from reached r join code f on f.oid = r.oid join code g on f.body ~* ('\m' || g.name || '"?\s*\(')
    )
    select coalesce(bool_or(c.is_definer or c.is_dynamic), false) from reached r join code c on c.oid = r.oid);
end $$;

-- The one column by which all policies of a table tie its rows to their user; null where there is none.
create function svc.tying_column(target oid) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when count(distinct o.name) = 1 and bool_and(exists (
    select from pg_attribute a where a.attrelid = target and a.attname = o.name and a.attnum > 0 and not a.attisdropped)) then min(o.name) end
  from pg_policy p cross join lateral (values
    (coalesce(case p.polcmd when 'r' then svc.owner_column(pg_get_expr(p.polqual, target)) when 'a' then svc.owner_column(pg_get_expr(p.polwithcheck, target))
      else svc.owner_column(pg_get_expr(coalesce(p.polwithcheck, p.polqual), target)) end, '')),
    (case p.polcmd when '*' then coalesce(svc.owner_column(pg_get_expr(p.polqual, target)), '') end)
  ) as o(name)
  where p.polrelid = target and p.polpermissive and p.polcmd <> 'd' and o.name is not null
$$;

create function svc.callers_write(target oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select has_any_column_privilege('svc_authenticated', target, 'insert, update') or has_any_column_privilege('svc_anon', target, 'insert, update')
$$;

-- Whether others than a row's own user may have written what a user reads of a table. Of a table that the user cannot write, others did.
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
      select f.oid from writers w join code g on g.oid = w.oid join code f on f.body ~* ('\m' || g.name || '"?\s*\(')
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
  -- A key that others change changes what refers to it.
  return exists (
    select from pg_constraint f join pg_class c on c.oid = f.confrelid cross join lateral unnest(f.conkey, f.confkey) as k(own, foreign_key)
    join pg_attribute a on a.attrelid = target and a.attnum = k.own join pg_type t on t.oid = a.atttypid
    where f.conrelid = target and f.contype = 'f' and f.confupdtype = 'c' and f.confrelid <> target
      and (t.typcategory = 'S' or t.typtype in ('d', 'c') or t.typname in ('json', 'jsonb'))
      and (has_column_privilege('svc_authenticated', f.confrelid, k.foreign_key, 'update') or has_column_privilege('svc_anon', f.confrelid, k.foreign_key, 'update'))
      and (not c.relrowsecurity or svc.tying_column(c.oid) is null));
end $$;

-- As before; the account is looked at first, and what is only marked as ended (account, client, key) is locked as what is deleted.
create or replace function svc.agent_commit(
  given_key text, agent_id uuid, given_request text, row_count integer, most integer, is_final boolean, heeds_quarantine boolean,
  given_generation bigint, given_nonce text, pending_id uuid, given_grant uuid, given_api_key uuid, entry jsonb
) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  agent svc.agents;
begin
  perform svc.require_log_key(given_key);
  perform from svc.users u join svc.agents a on a.user_id = u.id where a.id = agent_id and u.disabled_at is null for share of u;
  if not found then
    return 'ended';
  end if;
  select * into agent from svc.agents a where a.id = agent_id for update;
  if not found then
    return 'ended';
  end if;
  -- A grant that ends waits for this, or this finds it ended.
  perform from svc.oauth_grants g join svc.oauth_clients c on c.id = g.client where g.id = given_grant
    and (g.until is null or g.until > now()) and c.revoked_at is null and g.scope not like 'readonly%' for key share of g for share of c;
  if given_grant is not null and not found then
    return 'ended';
  end if;
  perform from svc.api_keys k where k.id = given_api_key and k.revoked_at is null and (k.expires_at is null or k.expires_at > now()) for share;
  if given_api_key is not null and not found then
    return 'ended';
  end if;
  if pending_id is null then
    if heeds_quarantine and agent.quarantined_at is not null then
      return 'quarantined';
    end if;
    if given_generation is not null and given_generation <> agent.generation then
      return 'ended';
    end if;
    if given_nonce is not null then
      insert into svc.agent_confirmed (nonce, expires_at) values (given_nonce, now() + interval '10 minutes') on conflict do nothing;
      if not found then
        return 'spent';
      end if;
    end if;
    if svc.agent_rows(agent.id) + row_count > most then
      return 'over';
    end if;
  else
    delete from svc.agent_pending p where p.id = pending_id and p.agent = agent_id and p.expires_at > now();
    if not found then
      return 'spent';
    end if;
  end if;
  insert into svc.agent_writes (request_id, agent, rows, by_hand, is_final)
  values (given_request, agent.id, row_count, pending_id is not null, agent_commit.is_final);
  insert into svc.audit_log (actor, action, target, user_id, api_key_id, new_values, ip_address)
  values ('user', entry ->> 'action', entry ->> 'target', agent.user_id, given_api_key, entry -> 'values', entry ->> 'ip');
  return 'ok';
end $$;
