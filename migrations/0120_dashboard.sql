-- Tokens signed in from the dashboard; where it is locked they may write only until then.
alter table svc.admin_tokens
  add column client text check (client = 'dashboard'),
  add column unlocked_until timestamptz;

-- Codes that open the dashboard signed in: good once, for what the token that made them may do.
create table svc.admin_codes (
  code_hash text primary key,
  admin_token_id uuid not null references svc.admin_tokens on delete cascade,
  expires_at timestamptz not null
);
create index admin_codes_token on svc.admin_codes (admin_token_id);

-- Tokens by which an administrator acts as another caller.
create table svc.impersonations (
  id uuid primary key default gen_random_uuid(),
  token_hash text not null unique,
  admin_token_id uuid not null references svc.admin_tokens on delete cascade,
  subject jsonb not null,
  may_write boolean not null,
  expires_at timestamptz not null
);
create index impersonations_token on svc.impersonations (admin_token_id);

-- The administrator who acted as the caller of an entry: an address, or `admin` for the shared password.
alter table svc.audit_log add column impersonated_by text;
