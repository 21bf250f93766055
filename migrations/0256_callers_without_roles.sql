-- As 0213_caller_ids.sql made it; where the role of the callers is not there yet, only policies for everybody are for them.
create or replace function svc.policy_is_for(policy_roles oid[], caller name) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from unnest(policy_roles) r(oid) where r.oid = 0 or exists (
    select from pg_roles c where c.rolname = caller and pg_has_role(c.oid, r.oid, 'usage')))
$$;
