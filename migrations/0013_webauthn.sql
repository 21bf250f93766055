-- Passkeys (WebAuthn). Public keys and names only; the secrets stay with the authenticators.

create table svc.webauthn_credentials (
  -- base64url, as clients name it.
  credential_id text primary key,
  user_id uuid not null references svc.users on delete cascade,
  -- In the order of enrolment, with gaps; decoys are drawn by it.
  ordinal bigint generated always as identity unique,
  -- COSE_Key, base64url.
  public_key text not null,
  -- As the authenticator last reported it; 0 for those that do not count.
  sign_count bigint not null,
  transports text[] not null,
  display_name text not null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz
);
create index webauthn_credentials_user on svc.webauthn_credentials (user_id, created_at);

-- Questions that wait for a signature. user_id is null where nobody is named, and refers to nothing on purpose: a row for
-- an unknown address costs exactly what one for a known address does.
create table svc.webauthn_challenges (
  id uuid primary key,
  kind text not null check (kind in ('enroll', 'mfa', 'login', 'discover')),
  user_id uuid,
  challenge text not null,
  expires_at timestamptz not null,
  spent_at timestamptz
);
create unique index webauthn_enrolment on svc.webauthn_challenges (user_id) where kind = 'enroll';
create index webauthn_challenges_user on svc.webauthn_challenges (user_id);
create index webauthn_challenges_expiry on svc.webauthn_challenges (expires_at);
