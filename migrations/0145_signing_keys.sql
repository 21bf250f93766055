-- Keys that sign access tokens. HS256 has no key here: it is derived from the root secret.
create table svc.signing_keys (
  kid text primary key,
  algorithm text not null check (algorithm in ('ES256', 'EdDSA', 'HS256')),
  -- Sealed; see auth.encryption_key.
  private_key text,
  active_from timestamptz not null default now(),
  retired_at timestamptz,
  check ((algorithm = 'HS256') = (private_key is null))
);

-- A database that has signed tokens with HS256 goes on with it until its operator says otherwise.
insert into svc.signing_keys (kid, algorithm)
select 'hs256', 'HS256' where exists (select from svc.settings where key = 'auth.jwt_salt');
