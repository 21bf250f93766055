-- Admin tokens are random, so their SHA-256 is enough; a password change deletes them all.
create table svc.admin_tokens (
  id uuid primary key default gen_random_uuid(),
  token_hash text not null unique,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);

-- `seq` orders entries of the same instant.
create table svc.audit_log (
  id uuid primary key default gen_random_uuid(),
  seq bigint generated always as identity,
  at timestamptz not null default clock_timestamp(),
  actor text not null check (actor in ('admin', 'user', 'anonymous')),
  action text not null,
  target text not null default '',
  user_id uuid,
  api_key_id uuid,
  table_name text,
  record_id text,
  operation text check (operation in ('INSERT', 'UPDATE', 'DELETE')),
  old_values jsonb,
  new_values jsonb,
  ip_address text
);
create index audit_log_at on svc.audit_log (at desc, seq desc);
create index audit_log_user on svc.audit_log (user_id, at desc) where user_id is not null;
create index audit_log_table on svc.audit_log (table_name, at desc) where table_name is not null;
create index audit_log_action on svc.audit_log (action, at desc);

-- Migrations of the operator's own schema, run by `svc migrate up`.
create table svc.user_migrations (
  name text primary key,
  checksum text not null,
  applied_at timestamptz not null default now()
);
