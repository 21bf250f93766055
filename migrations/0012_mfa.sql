-- Second factors. Codes are kept as keyed hashes, TOTP secrets encrypted.

-- One per user and method; a pending enrolment until it is confirmed.
create table svc.mfa_factors (
  id uuid primary key,
  user_id uuid not null references svc.users on delete cascade,
  method text not null check (method in ('totp', 'email', 'sms')),
  secret text,
  phone text,
  -- TOTP: the newest time step that was used. It and all before it are refused, whatever a clock says.
  last_step bigint not null default -1,
  created_at timestamptz not null default now(),
  confirmed_at timestamptz,
  unique (user_id, method),
  check ((secret is not null) = (method = 'totp')),
  check ((phone is not null) = (method = 'sms'))
);

create index mfa_factors_pending on svc.mfa_factors (created_at) where confirmed_at is null;

-- A question that waits for its code. Of a pending factor it is the enrolment's.
create table svc.mfa_challenges (
  id uuid primary key,
  factor_id uuid not null references svc.mfa_factors on delete cascade,
  -- Of the code that was sent; TOTP sends none.
  code_hash text,
  attempts integer not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  verified_at timestamptz
);
create index mfa_challenges_factor on svc.mfa_challenges (factor_id, created_at);
create index mfa_challenges_expiry on svc.mfa_challenges (expires_at);

-- Used ones stay until they are replaced, so that using one twice is not taken for guessing.
create table svc.mfa_backup_codes (
  user_id uuid not null references svc.users on delete cascade,
  code_hash text not null,
  used_at timestamptz,
  primary key (user_id, code_hash)
);

-- What a user's limits count: the failures of the last hour over all methods, the codes mailed of late.
create table svc.mfa_limits (
  user_id uuid primary key references svc.users on delete cascade,
  failures timestamptz[] not null default '{}',
  locked_until timestamptz,
  mails timestamptz[] not null default '{}'
);

-- Set when its second factor opened a session. The row stays until it expires: it opens no other session, and a
-- repeated call is told what happened.
alter table svc.pending_logins add column used_at timestamptz;
