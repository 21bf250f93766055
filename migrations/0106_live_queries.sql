-- Live queries hear of what is not in the change log: memberships, which svc.org_ids() reads, and accounts and organisations
-- that go and take rows with them. One word per statement, with the table.
create function svc.notify_live() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform pg_catalog.pg_notify('svc_live', TG_RELID::text);
  return null;
end $$;

create trigger notify_live after insert or update or delete on svc.members
  for each statement execute function svc.notify_live();
create trigger notify_live after delete on svc.users
  for each statement execute function svc.notify_live();
create trigger notify_live after delete on svc.organizations
  for each statement execute function svc.notify_live();
