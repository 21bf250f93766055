-- Passkeys of administrators, as those of accounts (0013_webauthn.sql).
create table svc.admin_passkeys (
  credential_id text primary key,
  admin_id uuid not null references svc.admins on delete cascade,
  public_key text not null,
  sign_count bigint not null,
  transports text[] not null,
  display_name text not null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz
);
create index admin_passkeys_admin on svc.admin_passkeys (admin_id, created_at);

create table svc.admin_passkey_challenges (
  id uuid primary key,
  kind text not null check (kind in ('enroll', 'discover')),
  admin_id uuid references svc.admins on delete cascade,
  challenge text not null,
  expires_at timestamptz not null
);
create unique index admin_passkey_enrolment on svc.admin_passkey_challenges (admin_id) where kind = 'enroll';
create index admin_passkey_challenges_expiry on svc.admin_passkey_challenges (expires_at);
