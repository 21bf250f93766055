-- Where PostgreSQL asks for passwords, the login of callers has the oid of its database in its name
-- (src/db/setup/authenticator.ts). It is no operator either, in whichever database it writes.
create or replace function svc.current_actor() returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  said text := current_setting('svc.actor', true);
  actor text := substr(said, 66);
begin
  if said <> '' then
    if left(said, 64) = (select encode(sha256(convert_to(k.key || '.' || actor || '.' || k.key, 'UTF8')), 'hex') from svc.log_key k) then
      return actor::jsonb;
    end if;
    return '{"kind": "unknown"}';
  end if;
  return case when current_setting('role') in ('svc_anon', 'svc_authenticated') or session_user ~ '^svc_authenticator(_[0-9]+)?$'
    then '{"kind": "unknown"}' else '{"kind": "system"}' end;
end $$;
