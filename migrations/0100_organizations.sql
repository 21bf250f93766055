-- Organisations of users. Policies read them with svc.org_ids() and svc.org_role(); see docs/organizations.md.
create table svc.organizations (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  created_at timestamptz not null default now()
);

create table svc.members (
  org_id uuid not null references svc.organizations on delete cascade,
  user_id uuid not null references svc.users on delete cascade,
  -- One of auth.org_roles; `owner` always is.
  role text not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (org_id, user_id)
);
create index members_user on svc.members (user_id);

create table svc.org_invites (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null references svc.organizations on delete cascade,
  -- An invitation belongs to its address.
  email text not null,
  role text not null,
  -- SHA-256 of the token in the mail.
  hash text not null unique,
  invited_by uuid not null references svc.users on delete cascade,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  unique (org_id, email)
);
create index org_invites_inviter on svc.org_invites (invited_by);
create index org_invites_expiry on svc.org_invites (expires_at);

-- The active organisation of a session; its tokens carry it as the claim `org`.
alter table svc.sessions add column org_id uuid references svc.organizations on delete set null;
create index sessions_org on svc.sessions (org_id) where org_id is not null;

-- An account that is deleted may have been the last owner: then the longest-standing member owns the organisation, and one
-- without members is removed. The order of roles is configuration, which the database does not know.
create function svc.keep_organizations_owned() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
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
create trigger keep_owned after delete on svc.members
  referencing old table as gone for each statement execute function svc.keep_organizations_owned();

-- For policies: the organisations of the caller, as they are now.
create function svc.org_ids() returns uuid[]
language sql stable parallel safe security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(array_agg(m.org_id), '{}') from svc.members m
  where m.user_id = nullif(current_setting('svc.user_id', true), '')::uuid
$$;

create function svc.org_role(org uuid) returns text
language sql stable parallel safe security definer set search_path = pg_catalog, pg_temp as $$
  select m.role from svc.members m
  where m.org_id = org and m.user_id = nullif(current_setting('svc.user_id', true), '')::uuid
$$;

-- The claims of the caller's token. `org` counts only while the caller is a member.
create function svc.claims() returns jsonb
language sql stable parallel safe security definer set search_path = pg_catalog, pg_temp as $$
  select case when c.given ? 'org' and svc.org_role((c.given ->> 'org')::uuid) is null then c.given - 'org' else c.given end
    || jsonb_strip_nulls(jsonb_build_object('sub', nullif(current_setting('svc.user_id', true), ''),
      'email', nullif(current_setting('svc.user_email', true), ''), 'aal', nullif(current_setting('svc.aal', true), '')))
  from (select coalesce(nullif(current_setting('svc.claims', true), '')::jsonb, '{}') as given) c
$$;
