-- An account takes the locks of its organisations before it goes, in one order: who else changes their members waits, or is waited
-- for, and then judges by what is there. Before its memberships go, since who holds a lock may want to write them.
create function svc.lock_organizations() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from svc.organizations o where o.id in (select m.org_id from svc.members m where m.user_id = old.id)
    order by o.id for no key update;
  return old;
end $$;
create trigger lock_organizations before delete on svc.users for each row execute function svc.lock_organizations();

-- As before, with the locks also where a membership is deleted by itself.
create or replace function svc.keep_organizations_owned() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from svc.organizations o where o.id in (select g.org_id from gone g) order by o.id for no key update;
  delete from svc.organizations o using (select distinct org_id from gone) g
  where o.id = g.org_id and not exists (select from svc.members m where m.org_id = o.id);
  update svc.members m set role = 'owner'
  from (
    select distinct on (m.org_id) m.org_id, m.user_id from svc.members m join gone g on g.org_id = m.org_id
    where not exists (select from svc.members o where o.org_id = m.org_id and o.role = 'owner')
    order by m.org_id, m.created_at, m.user_id
  ) heir
  where m.org_id = heir.org_id and m.user_id = heir.user_id;
  return null;
end $$;

-- Organisations that lost their last owner without this.
update svc.members m set role = 'owner'
from (
  select distinct on (m.org_id) m.org_id, m.user_id from svc.members m
  where not exists (select from svc.members o where o.org_id = m.org_id and o.role = 'owner')
  order by m.org_id, m.created_at, m.user_id
) heir
where m.org_id = heir.org_id and m.user_id = heir.user_id;

-- A key of an organisation ends with its user's membership for good: a later membership does not bring it back. Locked in the order
-- of all that ends keys.
create or replace function svc.end_member_keys() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  ended uuid[];
begin
  ended := array(
    select k.id from svc.api_keys k join gone g on g.org_id = k.org_id and g.user_id = k.user_id
    where k.revoked_at is null order by k.id for update of k);
  perform svc.revoke('key', id::text) from unnest(ended) as id;
  update svc.api_keys k set revoked_at = now() where k.id = any(ended);
  return null;
end $$;

update svc.api_keys k set revoked_at = now()
where k.revoked_at is null and k.org_id is not null
  and not exists (select from svc.members m where m.org_id = k.org_id and m.user_id = k.user_id);
