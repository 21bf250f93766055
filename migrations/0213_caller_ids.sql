-- Agents: policies of adopted databases name the caller in their own way, and policies for other roles concern no caller.

-- How expressions name the caller's id. auth.uid(): as an adoption made it, or as the database had it that is adopted in place.
create function svc.caller_ids() returns text[]
language sql stable set search_path = pg_catalog, pg_temp as $$
  select array['svc.uid()'] || array(
    select 'auth.uid()' from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'auth' and p.proname = 'uid' and p.pronargs = 0 and (
      p.prosrc ~* '^\s*select\s+svc\.uid\(\)\s*;?\s*$' or exists (select from svc.adopted a where a.kind = 'dialect' and case a.key
        when 'ayb' then p.prosrc ~ 'ayb\.user_id' else p.prosrc ~ 'request\.jwt\.claim' end)))
$$;

-- As before; whichever of its names the caller has there.
create or replace function svc.owner_column(rule text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  plain text := rule;
  id text;
  part text;
  found text[];
begin
  foreach id in array svc.caller_ids() loop
    plain := replace(replace(plain, '( SELECT ' || id || ' AS uid)', 'svc.uid()'), id, 'svc.uid()');
  end loop;
  plain := regexp_replace(replace(plain, '::text', ''), '[()]', '', 'g');
  if plain is null or plain ~* '\m(or|not|case|select|coalesce|any|all|in)\M' then
    return null;
  end if;
  -- Brackets are gone, and with them those of the call.
  foreach part in array regexp_split_to_array(plain, '\s+AND\s+') loop
    found := coalesce(regexp_match(part, '^"?([A-Za-z_][A-Za-z0-9_$]*)"? = svc\.uid$'), regexp_match(part, '^svc\.uid = "?([A-Za-z_][A-Za-z0-9_$]*)"?$'));
    if found is not null then
      return found[1];
    end if;
  end loop;
  return null;
end $$;

-- Which of the roles of callers a policy is for. Where the role is not there yet, only what is for everybody is for it.
create function svc.policy_is_for(policy_roles oid[], caller name) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from unnest(policy_roles) r(oid) where r.oid = 0 or exists (
    select from pg_roles c where c.rolname = caller and pg_has_role(c.oid, r.oid, 'usage')))
$$;

-- As before, of the policies for callers. What visitors see is nothing to a user, what they write is.
create or replace function svc.tying_column(target oid) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when count(distinct o.name) = 1 and bool_and(exists (
    select from pg_attribute a where a.attrelid = target and a.attname = o.name and a.attnum > 0 and not a.attisdropped)) then min(o.name) end
  from pg_policy p cross join lateral (values
    (coalesce(case p.polcmd when 'r' then svc.owner_column(pg_get_expr(p.polqual, target)) when 'a' then svc.owner_column(pg_get_expr(p.polwithcheck, target))
      else svc.owner_column(pg_get_expr(coalesce(p.polwithcheck, p.polqual), target)) end, '')),
    (case p.polcmd when '*' then coalesce(svc.owner_column(pg_get_expr(p.polqual, target)), '') end)
  ) as o(name)
  where p.polrelid = target and p.polpermissive and p.polcmd <> 'd' and o.name is not null
    and (svc.policy_is_for(p.polroles, 'svc_authenticated') or p.polcmd <> 'r' and svc.policy_is_for(p.polroles, 'svc_anon'))
$$;
