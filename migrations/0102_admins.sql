-- Administrators by name. Tokens of the shared password and of the command line tool on the machine belong to none of them.
create table svc.admins (
  id uuid primary key default gen_random_uuid(),
  name text not null,
  email text not null unique,
  password_hash text not null,
  role text not null check (role in ('owner', 'operator', 'viewer')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

alter table svc.admin_tokens
  add column admin_id uuid references svc.admins on delete cascade,
  add column via text not null default 'password' check (via in ('password', 'machine', 'name'));
create index admin_tokens_admin on svc.admin_tokens (admin_id) where admin_id is not null;

-- The address of the administrator, also when the administrator is gone; null for the shared password.
alter table svc.audit_log add column admin text;
