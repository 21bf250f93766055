-- API keys and usage by organisation. A key of an organisation is good while its user is a member, and ends with it.
alter table svc.api_keys add column org_id uuid references svc.organizations on delete set null;
create index api_keys_org on svc.api_keys (org_id) where org_id is not null;

create function svc.end_organization_keys() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform svc.revoke('key', k.id::text) from svc.api_keys k where k.org_id = old.id and k.revoked_at is null;
  update svc.api_keys k set revoked_at = now() where k.org_id = old.id and k.revoked_at is null;
  return old;
end $$;
create trigger end_keys before delete on svc.organizations for each row execute function svc.end_organization_keys();

create table svc.usage_organizations (
  org_id    uuid not null,
  hour      timestamptz not null,
  requests  bigint not null default 0,
  bandwidth bigint not null default 0,
  functions bigint not null default 0,
  primary key (hour, org_id)
);
