-- An authenticator app of an administrator; until it is confirmed it is only being enrolled.
alter table svc.admins
  add column totp_secret text,
  add column totp_started_at timestamptz,
  add column totp_confirmed_at timestamptz,
  add column totp_last_step bigint not null default 0,
  add column wrong_codes int not null default 0,
  add column locked_until timestamptz;

-- When the token's bearer last gave a second factor; null where none is enrolled.
alter table svc.admin_tokens add column second_factor_at timestamptz;
