-- What users say of themselves (`metadata`) and what administrators say of them (`app_metadata`); both are in svc.claims().
alter table svc.users
  add column metadata jsonb not null default '{}',
  add column app_metadata jsonb not null default '{}',
  -- Nothing opens a session, and no key or token counts, while it is set.
  add column disabled_at timestamptz;

-- Empty members are left out. Nulls inside of metadata stay, so it is not part of what is stripped.
create or replace function svc.user_json(u svc.users) returns json
language sql stable as $$
  select case when u.metadata = '{}' and u.app_metadata = '{}' then core else
    (left(core::text, -1)
      || case when u.metadata = '{}' then '' else ',"metadata":' || u.metadata::text end
      || case when u.app_metadata = '{}' then '' else ',"app_metadata":' || u.app_metadata::text end
      || '}')::json end
  from json_strip_nulls(json_build_object(
    'id', u.id,
    'email', coalesce(u.email, ''),
    'emailVerified', u.email_verified_at is not null,
    'is_anonymous', u.is_anonymous,
    'createdAt', svc.iso_utc(u.created_at),
    'updatedAt', svc.iso_utc(u.updated_at),
    'phone', u.phone,
    'linked_at', svc.iso_utc(u.linked_at),
    'disabled_at', svc.iso_utc(u.disabled_at))) core
$$;

-- `email_change` goes to the new address, `email_revert` to the old one; an invitation of an administrator sets a password.
alter table svc.mail_tokens drop constraint mail_tokens_purpose_check;
alter table svc.mail_tokens add constraint mail_tokens_purpose_check
  check (purpose in ('verify', 'reset', 'magic_link', 'email_change', 'email_revert', 'invite'));

create or replace function svc.claims() returns jsonb
language sql stable parallel safe security definer set search_path = pg_catalog, pg_temp as $$
  select case when c.given ? 'org' and svc.org_role((c.given ->> 'org')::uuid) is null then c.given - 'org' else c.given end
    || jsonb_strip_nulls(jsonb_build_object('sub', nullif(current_setting('svc.user_id', true), ''),
      'email', nullif(current_setting('svc.user_email', true), ''), 'aal', nullif(current_setting('svc.aal', true), '')))
    || coalesce((select jsonb_build_object('metadata', u.metadata, 'app_metadata', u.app_metadata) from svc.users u
      where u.id = nullif(current_setting('svc.user_id', true), '')::uuid), '{}')
  from (select coalesce(nullif(current_setting('svc.claims', true), '')::jsonb, '{}') as given) c
$$;
